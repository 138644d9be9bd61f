package shard

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/leader/internal/record"
)

// divider has the methods in which [Ranges] differ. Programs without them do not link it.
type divider interface {
	slotOf(namespace string) int
	plan(owners, members []string) plan
	// choose chooses the ranges if no replica has a slot, before this replica joins.
	choose(ctx context.Context) error
	// enter adopts the recorded ranges at the beginning of a term, before any claim.
	enter(ctx context.Context) error
	// decide is called before each decision. It reports whether slots may be claimed.
	decide(ctx context.Context, self string, now time.Time) (claims bool, err error)
	// mark returns the text in the record of a slot that is claimed.
	mark(slot int) string
	// left returns the keys of a slot, of which its record has some.
	left(slot int, recorded []types.NamespacedName) []types.NamespacedName
}

// maxRequests bounds a keeper's concurrent requests, and maxPending the events it notes
// before it decides.
const (
	maxRequests = 16
	maxPending  = 256
)

// keeper takes and releases slots during one term of the membership. One
// goroutine decides; requests and functions run in their own goroutines and
// report to it. That goroutine owns all fields that the mutex of replica does not guard.
type keeper struct {
	*replica

	ranges  divider // nil if slots are no ranges
	fn      func(ctx context.Context, slot int) error
	self    string // the holder of this term
	watcher *watcher
	planner planner

	own     map[int]*holding
	claims  map[int]bool         // slots with a claim under way; they count as owned
	busy    map[string]bool      // records with a request under way
	later   map[string]time.Time // records not to be written before then
	free    map[int]time.Time    // since when a slot has been waiting for its target
	reports chan func() error    // run by the deciding goroutine
	synced  bool                 // the first list has come
	over    bool                 // the term has ended
	err     error
}

// holding is a slot whose function runs, or that is being released.
type holding struct {
	lease   *coordinationv1.Lease
	cancel  context.CancelCauseFunc
	checked time.Time // when it was taken, or its record was read last
}

func newKeeper(r *replica, ranges divider, fn func(ctx context.Context, slot int) error) *keeper {
	k := &keeper{
		replica: r,
		ranges:  ranges,
		fn:      fn,
		self:    r.elector.Status().Identity,
		watcher: &watcher{
			records: r.records, timing: r.member.Timing, updates: make(chan update, maxPending), relist: make(chan struct{}, 1),
		},
		own:     map[int]*holding{},
		claims:  map[int]bool{},
		busy:    map[string]bool{},
		later:   map[string]time.Time{},
		free:    map[int]time.Time{},
		reports: make(chan func() error),
	}
	if ranges != nil {
		k.planner.byWeight = ranges.plan
	}
	return k
}

// quiet returns for how long a canceled request of this member may still arrive.
func (k *keeper) quiet() time.Duration { return max(0, k.member.CutUntil().Sub(k.now())) }

// start runs a request for a record in a goroutine of its own, and reports
// whether it did: there is one request for a record at a time.
func (k *keeper) start(name string, now time.Time, request func() error) bool {
	if k.busy[name] || len(k.busy) >= maxRequests || now.Before(k.later[name]) {
		return false
	}
	k.busy[name] = true
	go func() {
		err := request()
		k.reports <- func() error {
			delete(k.busy, name)
			k.finish(name, err)
			return nil
		}
	}()
	return true
}

// finish decides after a request when its record may be written next.
func (k *keeper) finish(name string, err error) {
	if err == nil {
		return
	}
	k.later[name] = k.now().Add(k.member.Timing.RetryPeriod / 2)
	faster := apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
	if faster && !absent.IsForeign(err) || record.IsNotFound(err, name) {
		k.relist() // another replica was faster
		return
	}
	k.reportWrite(k.records.explain("writing a record of", err))
}

// relist asks the watch for another list, without waiting for it.
func (k *keeper) relist() {
	select {
	case k.watcher.relist <- struct{}{}:
	default:
	}
}
