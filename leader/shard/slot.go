package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/internal/record"
	"github.com/homeostat/homeostat/leader/shard/internal/fleet"
)

// claim starts a request that takes a slot by compare-and-swap. The request
// succeeds only if the slot's record has not changed since the view saw it.
func (k *keeper) claim(ctx context.Context, slot int, now time.Time) {
	seen := k.View.Slots[slot].Lease
	if seen == nil {
		seen = k.Records.NewSlot(slot)
	}
	next := record.Taken(seen, k.self, k.Member.Timing.LeaseDuration, now)
	holder := record.Holder(seen)
	unlisted := k.View.IsUnlisted(holder, k.self)
	known := k.View.Slots[slot].UID
	started := k.start(seen.Name, now, func() error {
		var lease *coordinationv1.Lease
		var err error
		if unlisted {
			err = k.Records.ConfirmEnded(ctx, holder)
		}
		if err == nil {
			if k.divider != nil {
				k.divider.Claim(next, slot)
			}
			lease, err = k.Records.Write(ctx, next)
		}
		if apierrors.IsAlreadyExists(err) && absent.IsConflict(err) {
			err = k.relabel(ctx, slot, known, err)
		}
		k.reports <- func() error {
			delete(k.claims, slot)
			switch {
			case err == nil:
				delete(k.logged, slot)
				k.hold(ctx, slot, lease)
			case errors.Is(err, fleet.ErrUnlabelled):
				k.logOnce(ctx, slot, err, "taking a slot failed, retrying")
			}
			return nil
		}
		return err
	})
	if started {
		k.claims[slot] = true
	}
}

// logOnce logs that a record does not have the labels of its slot, unless this
// was logged already.
func (k *keeper) logOnce(ctx context.Context, slot int, err error, message string) {
	if !k.logged[slot] {
		k.logged[slot] = true
		klog.FromContext(ctx).Error(err, message, "slot", slot)
	}
}

// relabel restores the labels of the record of a slot, if the record exists but
// the view lacks it. A record that this replica has never seen with its labels
// may be the Lease of another program, so it is left alone. exists is the error
// with which the server refused to create the record.
func (k *keeper) relabel(ctx context.Context, slot int, known types.UID, exists error) error {
	wanted := k.Records.NewSlot(slot)
	lease, err := k.Records.Read(ctx, wanted.Name)
	switch {
	case err != nil:
		return err
	case lease.Labels[record.GroupLabel] == k.Records.Name: // another replica was faster
		return exists
	case known == "" || lease.UID != known:
		return fmt.Errorf("%w: lease %q", fleet.ErrUnlabelled, wanted.Name)
	}
	return cmp.Or(k.Records.Relabel(ctx, lease, wanted), exists)
}

// check reads the record of an owned slot if the view shows a different holder,
// and if a retry period has passed since the slot was taken or its record was
// last read. Until then the watch may only be late. Another client may have
// edited or deleted the record; then the slot is lost.
func (k *keeper) check(ctx context.Context, slot int, h *holding, now time.Time) {
	if record.Holder(k.View.Slots[slot].Lease) == k.self || now.Sub(h.checked) < k.Member.Timing.RetryPeriod {
		return
	}
	h.checked = now
	k.relist() // the watch may have missed other slots, too
	name := k.Records.SlotName(slot)
	k.start(name, now, func() error {
		lease, err := k.Records.Read(ctx, name)
		if record.IsNotFound(err, name) || err == nil && record.Holder(lease) != k.self {
			h.cancel(fmt.Errorf("%w: the record of slot %d was deleted or has another holder", leader.ErrLost, slot))
		} else if err == nil {
			err = k.Records.Relabel(ctx, lease, k.Records.NewSlot(slot))
		}
		if errors.Is(err, fleet.ErrUnlabelled) {
			k.reports <- func() error {
				k.logOnce(ctx, slot, err, "other replicas cannot see the owner of a slot because its record lacks labels, retrying")
				return nil
			}
		}
		return err
	})
}

// hold starts the function of a slot that was taken. If the term has ended, it
// gives the slot back instead.
func (k *keeper) hold(ctx context.Context, slot int, lease *coordinationv1.Lease) {
	h := &holding{lease: lease, checked: k.Now()}
	k.holdings[slot] = h
	var owned context.Context
	owned, h.cancel = context.WithCancelCause(ctx)
	k.collectKeys(slot, lease)
	if k.ended {
		k.giveBack(ctx, slot, h)
		return
	}
	k.SetWorking(slot, true)
	klog.FromContext(ctx).V(1).Info("slot taken", "slot", slot)
	go func() {
		err := k.fn(owned, slot)
		ended := owned.Err() != nil
		k.reports <- func() error {
			k.SetWorking(slot, false)
			k.giveBack(ctx, slot, h)
			return k.runError(slot, ended, err)
		}
	}()
}

// runError returns the error with which Run ends after the function of a slot
// has returned err. It returns nil if the context of the function had ended and
// err is the usual result of that.
func (k *keeper) runError(slot int, ended bool, err error) error {
	if err == nil && !ended {
		err = errors.New("the function returned before its context ended")
	}
	for _, end := range []error{context.Canceled, ErrMoved, leader.ErrStopping, leader.ErrLost, leader.ErrFenced} {
		if ended && errors.Is(err, end) {
			return nil
		}
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("working on slot %d of %q: %w", slot, k.Records.Key(), err)
}

// giveBack releases a slot whose function has returned. Other replicas may take
// it when no canceled request can still arrive.
//
// Two kinds of slots need no release: a slot of a lost term, whose holder is
// known to have ended, and a slot of a stopping member whose own Lease has to
// expire. The context decides, not k.ended: a function may report the end of
// the term before the keeper has noticed it.
func (k *keeper) giveBack(ctx context.Context, slot int, h *holding) {
	h.cancel(nil)
	if ctx.Err() != nil && (!errors.Is(context.Cause(ctx), leader.ErrStopping) || k.quiet() > 0) {
		delete(k.holdings, slot)
		return
	}
	go func() {
		written, err := k.release(ctx, slot, h.lease)
		k.reports <- func() error {
			delete(k.holdings, slot)
			if written {
				k.Leave(slot, nil)
			}
			name := k.Records.SlotName(slot)
			k.finish(name, err)
			k.retryAt[name] = k.Now().Add(k.Member.Timing.RetryPeriod / 2) // until the watch shows the release
			return nil
		}
	}()
}

// release clears the owner in the record of a slot, writes the keys for the
// next owner into it, and reports whether the record was written. After a
// failure the record may still name this replica. The replica then takes the
// slot again, or gives it up with its membership.
func (k *keeper) release(ctx context.Context, slot int, lease *coordinationv1.Lease) (written bool, err error) {
	for range record.ReleaseTries {
		free := record.Released(lease, k.quiet(), k.Now())
		cut := fleet.Keep(free, k.Left(slot), fleet.LeftRoom)
		_, err = k.Records.Update(ctx, free)
		if err == nil && cut > 0 {
			klog.FromContext(ctx).Info("the record of a slot is full, its next owner may miss some keys",
				"slot", slot, "keys", cut)
		}
		if !apierrors.IsConflict(err) {
			return err == nil, err
		}
		if lease, err = k.Records.Read(ctx, lease.Name); err != nil || record.Holder(lease) != k.self {
			return false, err
		}
	}
	return false, nil
}

// collectKeys collects the keys that are left with a slot that was taken: the
// keys in its record, and keys that this replica could not write there when it
// lost the slot. The keys stay in the record until it is released, because the
// next owner must find them if this replica dies.
func (k *keeper) collectKeys(slot int, lease *coordinationv1.Lease) {
	keys, recorded := slices.Clone(k.Left(slot)), fleet.KeysOf(lease)
	if k.divider != nil {
		recorded = k.divider.Left(slot, recorded)
	}
	for _, key := range recorded {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	k.Leave(slot, keys)
}
