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
	"github.com/homeostat/homeostat/leader/shard/internal/fleet"
	"github.com/homeostat/homeostat/leader/shard/internal/plan"
)

// run keeps slots until ctx, which is the membership, has ended and all
// functions have returned.
func (k *keeper) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watching sync.WaitGroup
	watching.Go(func() { k.watcher.Run(ctx) })
	defer watching.Wait()
	defer cancel(nil)
	stop := func(err error) {
		if err != nil && k.err == nil {
			k.err = err
			cancel(fmt.Errorf("%w: %w", leader.ErrStopping, err))
		}
	}
	for !k.ended || len(k.own)+len(k.busy) > 0 {
		stop(k.wait(ctx))
		if ctx.Err() != nil && !k.ended {
			k.ended = true
			if errors.Is(context.Cause(ctx), leader.ErrStopping) {
				k.Member.Leave()
			}
		}
		if !k.ended && k.synced {
			stop(k.decide(ctx))
		}
	}
	return k.err
}

// wait blocks until a report, an update of the watch or a deadline, and
// processes it together with all pending ones.
func (k *keeper) wait(ctx context.Context) error {
	now := k.Now()
	timer := k.Member.Timing.Clock.NewTimer(k.due(now).Sub(now))
	defer timer.Stop()
	done := ctx.Done()
	if k.ended {
		done = nil
	}
	select {
	case <-done:
	case report := <-k.reports:
		return errors.Join(report(), k.drain())
	case u := <-k.watcher.Updates:
		k.update(u)
	case <-timer.C():
	}
	return k.drain()
}

// drain processes all pending reports and updates. One decision about all of
// them costs as much as one about each.
func (k *keeper) drain() error {
	var errs []error
	for range maxPending {
		select {
		case report := <-k.reports:
			errs = append(errs, report())
		case u := <-k.watcher.Updates:
			k.update(u)
		default:
			return errors.Join(errs...)
		}
	}
	return errors.Join(errs...)
}

// due returns when to decide again without an event: when a lease expires, when
// a slot has waited long enough for its target, or after a retry period.
func (k *keeper) due(now time.Time) time.Time {
	k.Lock()
	defer k.Unlock()
	next := now.Add(k.Member.Timing.RetryPeriod)
	earlier := func(t time.Time) {
		if t.After(now) && t.Before(next) {
			next = t
		}
	}
	for _, member := range k.View.Members {
		earlier(member.FreeAt(k.View.Duration))
	}
	for _, quietEnd := range k.View.Quiet {
		earlier(quietEnd)
	}
	for _, freed := range k.free {
		earlier(freed.Add(k.patience()))
	}
	return next
}

// patience returns how long a free slot is left to its target. It is enough for
// the target to decide again and to make one request.
func (k *keeper) patience() time.Duration {
	return k.Member.Timing.RetryPeriod + k.Member.Timing.RequestTimeout
}

// update applies an update of the watch to the view. The keeper decides only
// after the first list: a replica that knows no owners would claim every slot.
func (k *keeper) update(u fleet.Update) {
	now := k.Now()
	k.Lock()
	defer k.Unlock()
	k.NoteProblem(u.Err)
	switch {
	case u.Err != nil:
	case u.Event != nil:
		k.View.Observe(u.Event, u.Deleted, now)
	default:
		k.synced = true
		k.View.Replace(u.List, now)
	}
}

// decide compares the owners with the plan, and starts the requests that are
// needed to reach the plan. An error ends the term.
func (k *keeper) decide(ctx context.Context) error {
	now := k.Now()
	k.Lock()
	defer k.Unlock()
	if k.View.IsStale(k.self, now) {
		k.relist()
	}
	k.expire(ctx, now)
	claims := true
	if k.divider != nil {
		var err error
		if claims, err = k.divider.Decide(ctx, k.self, now); err != nil {
			return err
		}
	}
	owners := k.View.Owners(k.self, now)
	for slot := range k.own {
		owners[slot] = k.self
	}
	for slot := range k.claims {
		owners[slot] = k.self
	}
	p := k.planner.Plan(owners, k.View.Assignable(now))
	settled := now.Sub(k.View.Changed) >= k.settle
	for slot, owner := range owners {
		h := k.own[slot]
		switch {
		case h != nil:
			if p.Target[slot] != k.self && settled {
				h.cancel(fmt.Errorf("%w: %s", ErrMoved, p.Target[slot]))
			}
			k.check(ctx, slot, h, now)
		case owner != k.self && owner != plan.Unowned:
		case !claims:
			delete(k.free, slot)
		case owner == k.self: // an answer was lost, or a release failed
			k.claim(ctx, slot, now)
		default:
			k.fill(ctx, slot, &p, now)
		}
		if owner != plan.Unowned && !k.claims[slot] {
			delete(k.free, slot)
		}
	}
	return nil
}

// fill claims a free slot once no request of the last owner can still arrive.
// It claims the slot if it is assigned to this replica, or if its target has
// not taken it in time.
//
// In the second case every replica claims the slot, and compare-and-swap
// decides, so that several unresponsive members cost no more time than one. The
// shares are evened out later.
func (k *keeper) fill(ctx context.Context, slot int, p *plan.Plan, now time.Time) {
	if now.Before(k.View.Quiet[slot]) {
		return
	}
	freed, waiting := k.free[slot]
	if !waiting {
		freed, k.free[slot] = now, now
	}
	waited, target := now.Sub(freed), p.Target[slot]
	switch {
	case waited >= k.patience():
		// A target that has just started may have seen the slot later, and may
		// still be waiting.
		if target != k.self && target != plan.Unowned && k.View.Quiet[slot].IsZero() {
			k.View.Unresponsive[target] = true
		}
	case target != k.self || p.IsGreedy(k.self) && waited < k.Member.Timing.RetryPeriod:
		return
	}
	k.claim(ctx, slot, now)
	p.Owned[k.self]++
}

// expire ends the membership of members whose lease has expired by this
// replica's clock. It writes their own record by compare-and-swap, which fails
// if the member is alive and only this replica's watch is late. It also deletes
// the records of members that ended long ago.
func (k *keeper) expire(ctx context.Context, now time.Time) {
	expired, old := k.View.Expired(k.self, now)
	for _, lease := range expired {
		k.start(lease.Name, now, func() error {
			_, err := k.Records.Update(ctx, record.Released(lease, 0, now))
			if err == nil {
				klog.FromContext(ctx).Info("membership expired", "member", record.Holder(lease))
			}
			return err
		})
	}
	for _, lease := range old {
		k.start(lease.Name, now, func() error { return k.Records.Remove(ctx, lease) })
	}
}
