package shard

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/leader/internal/record"
	"github.com/homeostat/homeostat/leader/shard/internal/fleet"
	"github.com/homeostat/homeostat/leader/shard/internal/plan"
)

// maxRequests bounds a keeper's concurrent requests, and maxPending the events it notes
// before it decides.
const (
	maxRequests = 16
	maxPending  = 256
)

// keeper takes and releases slots during one term of the membership. One
// goroutine decides; requests and functions run in their own goroutines and
// report to it. That goroutine owns all fields that the mutex of Replica does not guard.
type keeper struct {
	*fleet.Replica

	divider fleet.Divider // nil if keys are divided by their hash
	settle  time.Duration // see Options
	fn      func(ctx context.Context, slot int) error
	self    string // the holder of this term
	watcher *fleet.Watcher
	planner plan.Planner

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

func newKeeper(s *Shards, fn func(ctx context.Context, slot int) error) *keeper {
	k := &keeper{
		Replica: s.replica,
		divider: s.divider,
		settle:  s.settle,
		fn:      fn,
		self:    s.replica.Elector.Status().Identity,
		watcher: s.replica.NewWatcher(maxPending),
		own:     map[int]*holding{},
		claims:  map[int]bool{},
		busy:    map[string]bool{},
		later:   map[string]time.Time{},
		free:    map[int]time.Time{},
		reports: make(chan func() error),
	}
	if s.divider != nil {
		k.planner.ByWeight = s.divider.Plan
	}
	return k
}

// quiet returns for how long a canceled request of this member may still arrive.
func (k *keeper) quiet() time.Duration { return max(0, k.Member.CutUntil().Sub(k.Now())) }

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
	k.later[name] = k.Now().Add(k.Member.Timing.RetryPeriod / 2)
	faster := apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
	if faster && !absent.IsForeign(err) || record.IsNotFound(err, name) {
		k.relist() // another replica was faster
		return
	}
	k.ReportWrite(k.Records.Explain("writing a record of", err))
}

// relist asks the watch for another list, without waiting for it.
func (k *keeper) relist() {
	select {
	case k.watcher.Relist <- struct{}{}:
	default:
	}
}
