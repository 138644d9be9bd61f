package shard

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/leader/internal/record"
	"github.com/homeostat/homeostat/leader/shard/internal/plan"
)

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
	for slot := range k.holdings {
		owners[slot] = k.self
	}
	for slot := range k.claims {
		owners[slot] = k.self
	}
	p := k.planner.Plan(owners, k.View.Assignable(now))
	settled := now.Sub(k.View.Changed) >= k.settlePeriod
	for slot, owner := range owners {
		h := k.holdings[slot]
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
// not taken it in time. A replica that would get more than its share waits for
// a retry period first.
//
// In the second case every replica claims the slot, and compare-and-swap
// decides. So several unresponsive members cost no more time than one. The
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
// replica's clock. It releases the Lease of each such member by
// compare-and-swap. The release fails if the member is alive and only this
// replica's watch is late. expire also deletes the records of members that
// ended long ago.
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
