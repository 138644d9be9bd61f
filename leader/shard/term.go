package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/internal/record"
)

// run keeps slots until ctx, the membership, ends and all functions have returned.
func (k *keeper) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watching sync.WaitGroup
	watching.Go(func() { k.watcher.run(ctx) })
	defer watching.Wait()
	defer cancel(nil)
	stop := func(err error) {
		if err != nil && k.err == nil {
			k.err = err
			cancel(fmt.Errorf("%w: %w", leader.ErrStopping, err))
		}
	}
	for !k.over || len(k.own)+len(k.busy) > 0 {
		stop(k.wait(ctx))
		if ctx.Err() != nil && !k.over {
			k.over = true
			if errors.Is(context.Cause(ctx), leader.ErrStopping) {
				k.member.Leave()
			}
		}
		if !k.over && k.synced {
			stop(k.decide(ctx))
		}
	}
	return k.err
}

// wait blocks until something has happened, and processes it.
func (k *keeper) wait(ctx context.Context) error {
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
		return errors.Join(report(), k.drain())
	case u := <-k.watcher.updates:
		k.update(u)
	case <-timer.C():
	}
	return k.drain()
}

// drain processes all other pending events: one decision about all of them costs as much
// as one about each.
func (k *keeper) drain() error {
	var errs []error
	for range maxPending {
		select {
		case report := <-k.reports:
			errs = append(errs, report())
		case u := <-k.watcher.updates:
			k.update(u)
		default:
			return errors.Join(errs...)
		}
	}
	return errors.Join(errs...)
}

// due returns when to decide again if nothing happens: when a lease expires, when a
// slot has waited long enough for its target, or after a retry period.
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
	for _, until := range k.view.quiet {
		earlier(until)
	}
	for _, since := range k.free {
		earlier(since.Add(k.patience()))
	}
	return next
}

// patience returns how long a free slot is left to its target: until that has
// decided again and made one request.
func (k *keeper) patience() time.Duration {
	return k.member.Timing.RetryPeriod + k.member.Timing.RequestTimeout
}

// update notes an event of the watch. Nothing is decided before the first
// list: a replica that knows no owners would claim every slot.
func (k *keeper) update(u update) {
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.problem = u.err
	switch {
	case u.err != nil:
	case u.event != nil:
		k.view.observe(u.event, u.deleted, now)
	default:
		k.synced = true
		k.view.replace(u.list, now)
	}
}

// decide compares the owners with the plan and starts the requests that it
// takes. An error ends the term.
func (k *keeper) decide(ctx context.Context) error {
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.view.isStale(k.self, now) {
		k.relist()
	}
	k.expire(ctx, now)
	claims := true
	if k.ranges != nil {
		var err error
		if claims, err = k.ranges.decide(ctx, k.self, now); err != nil {
			return err
		}
	}
	owners := k.view.owners(k.self, now)
	for slot := range k.own {
		owners[slot] = k.self
	}
	for slot := range k.claims {
		owners[slot] = k.self
	}
	p := k.planner.plan(owners, k.view.assignable(now))
	settled := now.Sub(k.view.changed) >= k.options.Settle
	for slot, owner := range owners {
		h := k.own[slot]
		switch {
		case h != nil:
			if p.target[slot] != k.self && settled {
				h.cancel(fmt.Errorf("%w: %s", ErrMoved, p.target[slot]))
			}
			k.check(ctx, slot, h, now)
		case owner != k.self && owner != unowned:
		case !claims:
			delete(k.free, slot)
		case owner == k.self: // an answer was lost, or a release failed
			k.claim(ctx, slot, now)
		default:
			k.fill(ctx, slot, &p, now)
		}
		if owner != unowned && !k.claims[slot] {
			delete(k.free, slot)
		}
	}
	return nil
}

// fill claims a free slot if it is assigned to this replica, or if its target has taken
// too long, once no request of the last owner can still arrive. In the second case
// every replica claims it, and compare-and-swap decides, so several unresponsive
// members cost no more time than one. Shares are evened out later.
func (k *keeper) fill(ctx context.Context, slot int, p *plan, now time.Time) {
	if now.Before(k.view.quiet[slot]) {
		return
	}
	since, waiting := k.free[slot]
	if !waiting {
		since, k.free[slot] = now, now
	}
	waited, target := now.Sub(since), p.target[slot]
	switch {
	case waited >= k.patience():
		// A target that has just started may have seen the slot later, and may still be waiting.
		if target != k.self && target != unowned && k.view.quiet[slot].IsZero() {
			k.view.unresponsive[target] = true
		}
	case target != k.self || p.isGreedy(k.self) && waited < k.member.Timing.RetryPeriod:
		return
	}
	k.claim(ctx, slot, now)
	p.owned[k.self]++
}

// expire ends the membership of members whose lease has expired by this replica's
// clock. That is a compare-and-swap on their own record: it fails if they are alive and
// only this replica's watch is late.
func (k *keeper) expire(ctx context.Context, now time.Time) {
	expired, old := k.view.expired(k.self, now)
	for _, lease := range expired {
		k.start(lease.Name, now, func() error {
			_, err := k.records.update(ctx, record.Released(lease, 0, now))
			if err == nil {
				klog.FromContext(ctx).Info("membership expired", "member", record.Holder(lease))
			}
			return err
		})
	}
	for _, lease := range old {
		k.start(lease.Name, now, func() error { return k.records.remove(ctx, lease) })
	}
}
