package shard

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/leader/internal/record"
	"github.com/homeostat/homeostat/leader/shard/internal/fleet"
	"github.com/homeostat/homeostat/leader/shard/internal/plan"
)

// maxRequests bounds the concurrent requests of a keeper. maxPending bounds the
// events that it receives before it decides.
const (
	maxRequests = 16
	maxPending  = 256
)

// keeper takes and releases slots during one term of the membership. One
// goroutine decides. Requests and functions run in their own goroutines and
// report to it. The deciding goroutine owns all fields that the mutex of
// Replica does not guard.
type keeper struct {
	*fleet.Replica

	divider      fleet.Divider // nil if keys are divided by their hash
	settlePeriod time.Duration // Options.Settle, or its default
	fn           func(ctx context.Context, slot int) error
	self         string // the holder's name in this term
	watcher      *fleet.Watcher
	planner      plan.Planner

	holdings map[int]*holding
	claims   map[int]bool         // slots with a claim under way; they count as owned
	busy     map[string]bool      // records with a request under way that start has begun
	retryAt  map[string]time.Time // when a record may be written again
	free     map[int]time.Time    // when this keeper first saw that the slot can be claimed
	logged   map[int]bool         // slots for which wrong labels of the record were logged
	reports  chan func() error    // results of requests and functions, which the deciding goroutine applies
	synced   bool                 // whether the first list has arrived
	ended    bool                 // whether the term has ended
	err      error
}

// holding is a slot whose function is running, or which is being released.
type holding struct {
	lease   *coordinationv1.Lease
	cancel  context.CancelCauseFunc
	checked time.Time // when the slot was taken or its record last read
}

func newKeeper(s *Shards, fn func(ctx context.Context, slot int) error) *keeper {
	k := &keeper{
		Replica:      s.replica,
		divider:      s.divider,
		settlePeriod: s.settlePeriod,
		fn:           fn,
		self:         s.replica.Elector.Status().Identity,
		watcher:      s.replica.NewWatcher(maxPending),
		holdings:     map[int]*holding{},
		claims:       map[int]bool{},
		busy:         map[string]bool{},
		retryAt:      map[string]time.Time{},
		free:         map[int]time.Time{},
		logged:       map[int]bool{},
		reports:      make(chan func() error),
	}
	if s.divider != nil {
		k.planner.ByWeight = s.divider.Plan
	}
	return k
}

// quiet returns how much longer a canceled request of this member may still
// arrive.
func (k *keeper) quiet() time.Duration { return max(0, k.Member.CutUntil().Sub(k.Now())) }

// start runs a request for a record in a goroutine of its own, and reports
// whether it started one. It does not if a request for the record is under way,
// if too many others are, or if the record may not be written again yet.
func (k *keeper) start(name string, now time.Time, request func() error) bool {
	if k.busy[name] || len(k.busy) >= maxRequests || now.Before(k.retryAt[name]) {
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

// finish handles the result of a request for the record with this name. After a
// failure, it delays the next write of the record. If another client has
// changed or deleted the record, finish also asks for a new list. It reports
// other failures by Ready, except for a record without labels, because the
// replica can take other slots.
func (k *keeper) finish(name string, err error) {
	if err == nil {
		return
	}
	k.retryAt[name] = k.Now().Add(k.Member.Timing.RetryPeriod / 2)
	if absent.IsConflict(err) || record.IsNotFound(err, name) {
		k.relist() // another replica was faster
		return
	}
	if !errors.Is(err, fleet.ErrUnlabelled) { // the replica can take other slots
		k.ReportWrite(k.Records.Explain("writing a record of", err))
	}
}

// relist asks the watcher for another list. It does not wait for the list.
func (k *keeper) relist() {
	select {
	case k.watcher.Relist <- struct{}{}:
	default:
	}
}
