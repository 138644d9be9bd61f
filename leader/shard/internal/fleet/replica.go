// Package fleet has what a replica knows of all replicas that share slots: the records on the API server, its view of
// them, and the keys that owners leave each other. Packages shard and ranges decide by it.
package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/internal/record"
	"github.com/homeostat/homeostat/leader/shard/internal/plan"
)

// ErrConfig is the ErrConfig of package shard.
var ErrConfig = errors.New("the replicas divide the keys differently")

// Parts are what package ranges needs of shard.Shards.
type Parts interface {
	// Replica returns the state of the shards.
	Replica() *Replica
	// DivideBy lets d divide the keys. Call it before Run.
	DivideBy(d Divider)
}

// Divider divides the keys in another way than by their hash.
type Divider interface { //nolint:interfacebloat // one implementation; programs without it do not link it
	SlotOf(namespace string) int
	Plan(owners, members []string) plan.Plan
	// Choose chooses the ranges if no replica has a slot, before this replica joins.
	Choose(ctx context.Context) error
	// Enter adopts the recorded ranges at the beginning of a term, before any claim.
	Enter(ctx context.Context) error
	// Decide is called before each decision, with the mutex of Replica held. It reports whether
	// slots may be claimed.
	Decide(ctx context.Context, self string, now time.Time) (claims bool, err error)
	// Claim marks the record of a slot that is about to be claimed.
	Claim(lease *coordinationv1.Lease, slot int)
	// Left returns the keys of a slot, of which its record has some.
	Left(slot int, recorded []types.NamespacedName) []types.NamespacedName
}

// Replica is the state shared by shards and their keepers. Its mutex guards View.
type Replica struct {
	Records  Records
	Settings map[string]string // on which all replicas must agree
	Elector  *leader.Elector
	Member   *record.Member // the elector's

	sync.Mutex // guards the fields below
	View       *View
	problem    error        // why the last list, watch or read failed; nil if it did not
	failure    error        // why a write failed last
	failed     time.Time    // when it did
	working    map[int]bool // slots whose function runs
	// left holds the keys that the last owners have left with this replica's slots, and
	// then those that it leaves itself.
	left map[int][]types.NamespacedName
}

// New returns a replica that knows of no other.
func New(r Records, settings map[string]string, slots int, elector *leader.Elector, m *record.Member) *Replica {
	return &Replica{
		Records: r, Settings: settings, Elector: elector, Member: m,
		View: newView(r, slots, m), working: map[int]bool{}, left: map[int][]types.NamespacedName{},
	}
}

// Report records why the last list, watch or read failed, for Ready.
func (r *Replica) Report(err error) {
	r.Lock()
	defer r.Unlock()
	r.problem = err
}

// NoteProblem is Report with the mutex held.
func (r *Replica) NoteProblem(err error) { r.problem = err }

// ReportWrite records why a write failed, for Ready.
func (r *Replica) ReportWrite(err error) {
	r.Lock()
	defer r.Unlock()
	r.failure, r.failed = err, r.Now()
}

// Problems returns the present ones. A write that has failed is tried again within a retry
// period, unless it is no longer needed.
func (r *Replica) Problems() error {
	r.Lock()
	defer r.Unlock()
	if r.Now().Sub(r.failed) > 2*r.Member.Timing.RetryPeriod {
		return r.problem
	}
	return errors.Join(r.problem, r.failure)
}

// Now returns the time of the replica's clock.
func (r *Replica) Now() time.Time { return r.Member.Timing.Clock.Now() }

// Sleep waits until d has passed or ctx has ended.
func (r *Replica) Sleep(ctx context.Context, d time.Duration) {
	record.Sleep(ctx, r.Member.Timing.Clock, d)
}

// Retry calls do until it succeeds, finds that the configurations differ, or ctx ends. Ready reports other errors.
func (r *Replica) Retry(ctx context.Context, doing string, do func(context.Context) error) error {
	for ctx.Err() == nil {
		err := do(ctx)
		if errors.Is(err, ErrConfig) {
			return err
		}
		r.Report(err)
		if err == nil {
			return nil
		}
		klog.FromContext(ctx).Error(err, doing+" failed, retrying", "lease", r.Records.Key())
		r.Sleep(ctx, r.Member.Timing.RetryPeriod)
	}
	return nil
}

// SetWorking records whether the function of a slot runs.
func (r *Replica) SetWorking(slot int, works bool) {
	r.Lock()
	defer r.Unlock()
	r.working[slot] = works
}

// IsWorking reports whether the function of a slot runs. The mutex is held.
func (r *Replica) IsWorking(slot int) bool { return r.working[slot] }

// Leave replaces the keys that the next owner of a slot gets. The slice is retained.
func (r *Replica) Leave(slot int, keys []types.NamespacedName) {
	r.Lock()
	defer r.Unlock()
	r.left[slot] = keys
}

// Left returns the keys that the last owner of a slot has left, or nil if there are
// none. The slice is shared; do not modify it.
func (r *Replica) Left(slot int) []types.NamespacedName {
	r.Lock()
	defer r.Unlock()
	return r.left[slot]
}

// Rehome gives the keys that were to be left with slots to the slots that they have now.
func (r *Replica) Rehome(slotOf func(namespace string) int) {
	r.Lock()
	defer r.Unlock()
	left := r.left
	r.left = map[int][]types.NamespacedName{}
	for _, keys := range left {
		for _, key := range keys {
			slot := slotOf(key.Namespace)
			r.left[slot] = append(r.left[slot], key)
		}
	}
}
