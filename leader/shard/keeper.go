package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/internal/record"
)

// maxRequests bounds the requests that a keeper has under way.
const maxRequests = 16

// errReturned is what a function that returned too early gets.
var errReturned = errors.New("the function of a slot returned before its context ended")

// keeper takes and gives slots during one term of the membership. One goroutine
// decides; requests and functions run in their own and report to it.
type keeper struct {
	*Shards
	fn   func(ctx context.Context, slot int) error
	self string

	own     map[int]*holding
	claims  map[int]bool         // slots asked for; they count as ours
	busy    map[string]bool      // records with a request under way
	later   map[string]time.Time // records to leave alone until then
	free    map[int]time.Time    // since when a slot waits for its target
	reports chan func() error    // run by the deciding goroutine
	again   chan struct{}        // asks the watch to list again
	synced  bool
	over    bool
	err     error
}

// holding is a slot whose function runs, or that is being released.
type holding struct {
	lease  *coordinationv1.Lease
	cancel context.CancelCauseFunc
	moving bool
	doubt  time.Time // since when the watch shows another holder
}

func newKeeper(s *Shards, fn func(ctx context.Context, slot int) error) *keeper {
	return &keeper{
		Shards:  s,
		fn:      fn,
		self:    s.elector.Status().Identity,
		own:     map[int]*holding{},
		claims:  map[int]bool{},
		busy:    map[string]bool{},
		later:   map[string]time.Time{},
		free:    map[int]time.Time{},
		reports: make(chan func() error),
		again:   make(chan struct{}, 1),
	}
}

// run keeps slots until ctx, the membership, ends and all functions have
// returned.
func (k *keeper) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watching sync.WaitGroup
	tell := make(chan sighting)
	watching.Go(func() { k.watch(ctx, tell, k.again) })
	defer watching.Wait()
	defer cancel(nil)
	for !k.over || len(k.own)+len(k.busy) > 0 {
		if err := k.wait(ctx, tell); err != nil && k.err == nil {
			k.err = err
			cancel(fmt.Errorf("%w: %w", leader.ErrStopping, err))
		}
		if ctx.Err() != nil && !k.over {
			k.over = true
			if errors.Is(context.Cause(ctx), leader.ErrStopping) {
				k.member.Leave()
			}
		}
		if !k.over && k.synced {
			k.decide(ctx)
		}
	}
	return k.err
}

// wait takes in the next thing that happens.
func (k *keeper) wait(ctx context.Context, tell <-chan sighting) error {
	now := k.now()
	timer := k.member.Timing.Clock.NewTimer(k.due(now).Sub(now))
	defer timer.Stop()
	done := ctx.Done()
	if k.over {
		done = nil
	}
	select {
	case <-done:
	case report := <-k.reports:
		return report()
	case s := <-tell:
		k.saw(s)
	case <-timer.C():
	}
	return nil
}

// due is when to decide again if nothing happens: when a lease expires or a
// target has been waited for long enough, and every RetryPeriod.
func (k *keeper) due(now time.Time) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := now.Add(k.member.Timing.RetryPeriod)
	earlier := func(t time.Time) {
		if t.After(now) && t.Before(next) {
			next = t
		}
	}
	for _, member := range k.view.members {
		earlier(member.FreeAt(k.view.duration))
	}
	for _, since := range k.free {
		earlier(since.Add(k.patience()))
	}
	return next
}

// patience is how long a free slot is left to the member whose turn it is to
// take it: until it has looked again, and one request more.
func (k *keeper) patience() time.Duration {
	return k.member.Timing.RetryPeriod + k.member.Timing.RequestTimeout
}

func (k *keeper) saw(s sighting) {
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.problem = s.err
	switch {
	case s.err != nil:
	case s.event != nil:
		k.view.see(s.event, s.deleted, now)
	default:
		k.synced = true
		k.view.replace(s.list, now)
	}
}

// decide compares what is with what ought to be, and starts what it takes.
func (k *keeper) decide(ctx context.Context) {
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.view.stale(k.records.memberName(identityOf(k.self)), now) {
		k.relist()
	}
	k.bury(ctx, now)
	owners := k.view.owners(k.self, now)
	for slot := range k.own {
		owners[slot] = k.self
	}
	for slot := range k.claims {
		owners[slot] = k.self
	}
	p := plan(owners, k.view.living(now))
	settled := now.Sub(k.view.changed) >= k.options.Settle
	for slot, owner := range owners {
		h := k.own[slot]
		switch {
		case h != nil && h.moving:
		case h != nil:
			if p.target[slot] != k.self && settled {
				h.moving = true
				h.cancel(fmt.Errorf("%w: %s", ErrMoved, p.target[slot]))
			}
			k.check(ctx, slot, h, now)
		case owner == k.self: // an answer was lost, or a release failed
			k.claim(ctx, slot, now)
		case owner == nobody:
			k.fill(ctx, slot, &p, now)
		}
		if owner != nobody && !k.claims[slot] {
			delete(k.free, slot)
		}
	}
}

// fill takes a free slot if it is ours to take, or if the one whose turn it is
// has not taken it for too long. Whoever sees that takes it then, without
// another order among them: so several members that do nothing cost no more
// time than one. Compare-and-swap decides, and shares are evened out later.
func (k *keeper) fill(ctx context.Context, slot int, p *planner, now time.Time) {
	since, waiting := k.free[slot]
	if !waiting {
		since, k.free[slot] = now, now
	}
	waited, target := now.Sub(since), p.target[slot]
	switch {
	case waited >= k.patience():
		if target != k.self && target != nobody {
			k.view.shy[target] = true
		}
	case target != k.self || p.greedy(k.self) && waited < k.member.Timing.RetryPeriod:
		return
	}
	k.claim(ctx, slot, now)
	p.owned[k.self]++
}

// bury ends the membership of those whose lease has expired by our clock. That
// is a compare-and-swap on their own record: it fails if they live after all
// and only our watch is late.
func (k *keeper) bury(ctx context.Context, now time.Time) {
	dead, tombs := k.view.dead(k.self, now)
	for _, lease := range dead {
		k.start(lease.Name, now, func() error {
			_, err := k.update(ctx, record.Released(lease, now))
			if err == nil {
				klog.FromContext(ctx).Info("member is gone", "member", record.Holder(lease))
			}
			return err
		})
	}
	for _, lease := range tombs {
		k.start(lease.Name, now, func() error { return k.remove(ctx, lease) })
	}
}

// start runs a request of a record in its own goroutine, one at a time. It
// tells whether it did.
func (k *keeper) start(name string, now time.Time, request func() error) bool {
	if k.busy[name] || len(k.busy) >= maxRequests || now.Before(k.later[name]) {
		return false
	}
	k.busy[name] = true
	go func() {
		err := request()
		k.reports <- func() error {
			delete(k.busy, name)
			k.settle(name, err)
			return nil
		}
	}()
	return true
}

// settle decides when a record may be written next, after a request.
func (k *keeper) settle(name string, err error) {
	delete(k.later, name)
	if err == nil {
		return
	}
	k.later[name] = k.now().Add(k.member.Timing.RetryPeriod / 2)
	if wasFaster(err) {
		k.relist()
		return
	}
	k.failed(k.records.explain("writing a record of", err))
}

func (k *keeper) relist() {
	select {
	case k.again <- struct{}{}:
	default:
	}
}
