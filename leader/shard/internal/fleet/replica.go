// Package fleet holds what a replica knows about all replicas that share slots:
// the records in the API server, its view of them, and the keys that owners
// leave to the next owners. Packages shard and ranges base their decisions on
// it.
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

// ErrConfig is the error that package shard exports as ErrConfig.
var ErrConfig = errors.New("the replicas' shard configurations differ")

// Parts are the methods of shard.Shards that package ranges needs.
type Parts interface {
	// Replica returns the state of the shards.
	Replica() *Replica
	// DivideBy lets d divide the keys. Call it before Run.
	DivideBy(d Divider)
}

// Divider divides the keys by something other than their hash. Package ranges,
// for example, divides the namespaces into ranges.
type Divider interface { //nolint:interfacebloat // one implementation; programs without it do not link it
	SlotOf(namespace string) int
	Plan(owners, members []string) plan.Plan
	// Choose chooses the ranges if no replica has a slot. It is called before
	// this replica joins.
	Choose(ctx context.Context) error
	// Enter adopts the recorded ranges at the beginning of a term, before any
	// claim.
	Enter(ctx context.Context) error
	// Decide is called before each decision, with the mutex of Replica held. It
	// reports whether slots may be claimed. An error ends the term.
	Decide(ctx context.Context, self string, now time.Time) (claims bool, err error)
	// Claim marks the record of a slot that is about to be claimed with the
	// slot's range.
	Claim(lease *coordinationv1.Lease, slot int)
	// Left returns the keys that are left with a slot. The slot's record has
	// the keys in recorded, some of which may belong to other slots.
	Left(slot int, recorded []types.NamespacedName) []types.NamespacedName
}

// Replica is the state shared by the shards and their keepers.
type Replica struct {
	Records  Records
	Settings map[string]string // annotations on which all replicas must agree
	Elector  *leader.Elector
	Member   *record.Member // the Elector's member

	sync.Mutex // guards the fields below
	View       *View
	problem    error        // why the last list, watch or read failed; nil if it succeeded
	failure    error        // the error of the last write that failed
	failed     time.Time    // when that write failed
	working    map[int]bool // slots whose function is running
	// left contains, by slot, the keys that were left for the next owner. For a
	// slot of this replica, the previous owner has left them. For a slot that
	// this replica has lost, this replica leaves them.
	left map[int][]types.NamespacedName
}

// New returns a replica that has not seen any record yet.
func New(r Records, settings map[string]string, slots int, elector *leader.Elector, m *record.Member) *Replica {
	return &Replica{
		Records: r, Settings: settings, Elector: elector, Member: m,
		View: newView(r, slots, m), working: map[int]bool{}, left: map[int][]types.NamespacedName{},
	}
}

// Report records why the last list, watch or read failed, for Ready. A nil err
// means that it succeeded.
func (r *Replica) Report(err error) {
	r.Lock()
	defer r.Unlock()
	r.problem = err
}

// NoteProblem is like Report, for a caller that holds the mutex.
func (r *Replica) NoteProblem(err error) { r.problem = err }

// ReportWrite records why a write failed, for Ready.
func (r *Replica) ReportWrite(err error) {
	r.Lock()
	defer r.Unlock()
	r.failure, r.failed = err, r.Now()
}

// Problems returns the present problems of reads and writes, joined. A failed
// write counts for two retry periods: a write that is still needed is retried
// within that time.
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

// Retry calls try until it succeeds or returns an [ErrConfig], or until ctx
// ends. Retry logs other errors and reports them for Ready. doing names the
// operation in the log, such as "checking the configuration".
//
// Retry returns an error only if try returned an [ErrConfig].
func (r *Replica) Retry(ctx context.Context, doing string, try func(context.Context) error) error {
	for ctx.Err() == nil {
		err := try(ctx)
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

// SetWorking records whether the function of a slot is running.
func (r *Replica) SetWorking(slot int, works bool) {
	r.Lock()
	defer r.Unlock()
	r.working[slot] = works
}

// IsWorking reports whether the function of a slot is running. The caller holds
// the mutex.
func (r *Replica) IsWorking(slot int) bool { return r.working[slot] }

// Leave replaces the keys that this replica leaves for the next owner of a
// slot. It retains the slice.
func (r *Replica) Leave(slot int, keys []types.NamespacedName) {
	r.Lock()
	defer r.Unlock()
	r.left[slot] = keys
}

// Left returns the keys that the last owner of a slot has left, possibly nil.
// The slice is shared; do not modify it.
func (r *Replica) Left(slot int) []types.NamespacedName {
	r.Lock()
	defer r.Unlock()
	return r.left[slot]
}

// Rehome moves each key in left to its slot according to slotOf. It is needed
// when the ranges have changed.
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
