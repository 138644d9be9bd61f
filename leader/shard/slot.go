package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/internal/record"
)

// claim takes a slot by compare-and-swap: the record must still be the one that
// we have seen.
func (k *keeper) claim(ctx context.Context, slot int, now time.Time) {
	seen := k.view.slots[slot].Lease
	started := k.start(k.records.slotName(slot), now, func() error {
		lease, err := k.take(ctx, slot, seen, now)
		k.reports <- func() error {
			delete(k.claims, slot)
			if err == nil {
				k.hold(ctx, slot, lease)
			}
			return nil
		}
		return err
	})
	if started {
		k.claims[slot] = true
	}
}

func (k *keeper) take(
	ctx context.Context, slot int, seen *coordinationv1.Lease, now time.Time,
) (*coordinationv1.Lease, error) {
	duration := k.member.Timing.LeaseDuration
	if seen != nil {
		return k.update(ctx, record.Taken(seen, k.self, duration, now))
	}
	ctx, end := k.request(ctx)
	defer end()
	lease := record.Taken(k.records.newSlot(slot), k.self, duration, now)
	return k.records.leases().Create(ctx, lease, metav1.CreateOptions{})
}

// check looks after a slot of ours whose record shows another holder for longer
// than a watch is late: somebody edited or deleted it.
func (k *keeper) check(ctx context.Context, slot int, h *holding, now time.Time) {
	if record.Holder(k.view.slots[slot].Lease) == k.self {
		h.doubt = time.Time{}
		return
	}
	if h.doubt.IsZero() {
		h.doubt = now
	}
	if now.Sub(h.doubt) < k.member.Timing.RetryPeriod {
		return
	}
	name := k.records.slotName(slot)
	started := k.start(name, now, func() error {
		lease, err := k.read(ctx, name)
		if apierrors.IsNotFound(err) || err == nil && record.Holder(lease) != k.self {
			h.cancel(fmt.Errorf("%w: the record of slot %d", leader.ErrLost, slot))
		}
		return err
	})
	if started {
		h.doubt = now
		k.relist() // it may be the watch that is silent, and then about all slots
	}
}

// hold runs the function of a slot that is ours, unless the term is over.
func (k *keeper) hold(ctx context.Context, slot int, lease *coordinationv1.Lease) {
	h := &holding{lease: lease}
	k.own[slot] = h
	var owned context.Context
	owned, h.cancel = context.WithCancelCause(ctx)
	if k.over {
		k.giveBack(ctx, slot, h)
		return
	}
	k.work(slot, true)
	klog.FromContext(ctx).V(1).Info("slot taken", "slot", slot)
	go func() {
		err := k.fn(owned, slot)
		ended := owned.Err() != nil
		h.cancel(nil)
		k.reports <- func() error { return k.returned(ctx, slot, h, ended, err) }
	}()
}

// returned is told when the function of a slot has returned.
func (k *keeper) returned(ctx context.Context, slot int, h *holding, ended bool, err error) error {
	k.work(slot, false)
	k.giveBack(ctx, slot, h)
	switch {
	case ended && (err == nil || expected(err)):
		return nil
	case err == nil:
		err = errReturned
	}
	return fmt.Errorf("working on slot %d of %q: %w", slot, k.records.key(), err)
}

func expected(err error) bool {
	for _, cause := range []error{context.Canceled, ErrMoved, leader.ErrStopping, leader.ErrLost, leader.ErrFenced} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// giveBack releases a slot whose function has returned, once no request that was
// cut off can arrive any more. A slot of a term that was lost needs no release:
// its holder is known to be over. Nor does one of a member that stops and whose
// own Lease has to expire.
func (k *keeper) giveBack(ctx context.Context, slot int, h *holding) {
	h.cancel(nil)
	quiet := k.quiet()
	if k.over && (!errors.Is(context.Cause(ctx), leader.ErrStopping) || quiet > 0) {
		delete(k.own, slot)
		return
	}
	go func() {
		if quiet > 0 {
			record.Sleep(ctx, k.member.Timing.Clock, quiet)
		}
		if ctx.Err() != nil && k.quiet() > 0 {
			k.reports <- func() error { delete(k.own, slot); return nil }
			return
		}
		err := k.release(ctx, h.lease)
		k.reports <- func() error {
			delete(k.own, slot)
			name := k.records.slotName(slot)
			k.settle(name, err)
			k.later[name] = k.now().Add(k.member.Timing.RetryPeriod / 2) // until the watch shows it
			return nil
		}
	}()
}

// quiet is for how long a request of this member that was cut off may still arrive.
func (k *keeper) quiet() time.Duration {
	return max(0, k.member.CutUntil().Sub(k.now()))
}

// release gives a slot to anybody. If that fails, the slot is still ours in the
// record, and is taken up again or left with the membership.
func (k *keeper) release(ctx context.Context, lease *coordinationv1.Lease) error {
	for range record.ReleaseTries {
		_, err := k.update(ctx, record.Released(lease, k.now()))
		if !apierrors.IsConflict(err) {
			return err
		}
		if lease, err = k.read(ctx, lease.Name); err != nil || record.Holder(lease) != k.self {
			return err
		}
	}
	return nil
}

func (k *keeper) read(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	ctx, end := k.request(ctx)
	defer end()
	return k.records.leases().Get(ctx, name, metav1.GetOptions{})
}

func (k *keeper) update(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	ctx, end := k.request(ctx)
	defer end()
	return k.records.leases().Update(ctx, lease, metav1.UpdateOptions{})
}

func (k *keeper) remove(ctx context.Context, lease *coordinationv1.Lease) error {
	ctx, end := k.request(ctx)
	defer end()
	return k.records.leases().Delete(ctx, lease.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
	})
}

func (k *keeper) work(slot int, works bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if works {
		k.working[slot] = true
	} else {
		delete(k.working, slot)
	}
}

// wasFaster tells whether another changed the record first.
func wasFaster(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}
