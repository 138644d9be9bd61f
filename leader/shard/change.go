package shard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/keyspace"
	"github.com/homeostat/homeostat/leader/internal/record"
)

// Ranges change while replicas run: a new division is written into the record of the configuration, and each replica
// adopts it on its own. The records of the slots ensure that a namespace has only one owner: each has the version of
// the division that set its range.
//
//   - An owner drains the slots whose ranges change, and releases them. It adopts the new division once it holds none
//     of them, and claims none before that.
//   - The record of such a slot is raised to the new version once no request of an owner with the old range can still
//     arrive: at the release, or by compare-and-swap when the slot could be claimed. It never goes back.
//   - A replica claims a slot only if its division and the record give the slot the same version. If the slot's range
//     has ever changed, no record that still has to be raised may overlap it.
//   - The next division is written when all records have been raised.

// changes is a keeper's state during changes of the ranges. The keeper's goroutine owns it.
type changes struct {
	*current

	of     *replica
	config *coordinationv1.Lease // the record of the configuration, as last read
	next   *division             // replaces the present one; nil if there is none

	blocked bool      // slots have, or just had, owners with a foreign division
	seen    time.Time // when such owners were last seen
	marked  *division // the division that marks belong to
	marks   []string  // by slot
	late    time.Time // when a record was first found to be of a later version; or zero
	told    bool
}

// change adopts the division that the view shows: it drains the slots that are leaving, and once this replica holds
// none of them, keys are divided by the new one. It reports whether slots are still moving for that, here or
// elsewhere. It returns an [ErrConfig] if the configuration was deleted and recorded again, because replicas that
// start use the new one. The mutex of replica is held.
func (c *changes) change(ctx context.Context, k *keeper) (inMotion bool, err error) {
	if lease := k.view.config; lease != nil && lease != c.config {
		if string(lease.UID) != c.divided().uid {
			return false, fmt.Errorf("%w: lease %q was deleted and recorded again while replicas ran",
				ErrConfig, k.records.key())
		}
		c.config, c.next = lease, nil
		c.read(ctx, k, lease)
	}
	c.await(ctx, k)
	if c.next != nil && !c.drain(k) {
		c.take(k, c.next)
		c.next = nil
	}
	return c.next != nil || !c.divided().raised(k.view), nil
}

// await notes whether slots have owners with a different division, because another client has edited or deleted the
// configuration. Until those owners have ended, no slot may be claimed, as its range may overlap theirs. One of them
// may be about to claim a slot that another releases, so await waits for a lease duration after the last one was seen.
func (c *changes) await(ctx context.Context, k *keeper) {
	d, now, before, log := c.divided(), k.now(), c.blocked, klog.FromContext(ctx)
	if c.marked != d {
		c.marked, c.marks = d, make([]string, len(d.since))
		for slot := range c.marks {
			c.marks[slot] = d.stamp(slot).mark
		}
	}
	c.blocked = false
	late := false
	for slot, o := range k.view.slots {
		late = late || d.versionOf(o.Lease) > d.since[slot]
		if c.blocked || !c.dividesOtherwise(slot, o.Lease) {
			continue
		}
		if owner := k.view.owner(slot, k.self, now); owner != unowned && owner != k.self {
			c.blocked, c.seen = true, now
			if !before {
				log.Info("replica divides the keys in another way than recorded, taking no slot until it ends",
					"lease", k.records.key(), "owner", owner, "slot", slot)
			}
		}
	}
	c.blocked = c.blocked || !c.seen.IsZero() && now.Sub(c.seen) < k.member.Timing.LeaseDuration
	c.lag(ctx, k, late && c.next == nil, now)
}

// dividesOtherwise reports whether the record of a slot has ranges from a different configuration: neither this
// replica's, nor earlier or later ones of the same configuration.
func (c *changes) dividesOtherwise(slot int, record *coordinationv1.Lease) bool {
	d, mark := c.marked, annotation(record, rangeAnnotation)
	uid, _, _ := strings.Cut(mark, " ")
	return mark != "" && mark != c.marks[slot] && (uid != d.uid || d.versionOf(record) == d.since[slot])
}

// lag logs that slots have ranges of a later version than the recorded ones, unless this replica has only not seen
// these yet. No replica that starts takes such a slot.
func (c *changes) lag(ctx context.Context, k *keeper, late bool, now time.Time) {
	switch {
	case !late:
		c.late, c.told = time.Time{}, false
	case c.late.IsZero():
		c.late = now
	case !c.told && now.Sub(c.late) >= k.member.Timing.LeaseDuration:
		c.told = true
		klog.FromContext(ctx).Error(ErrConfig, "cannot take slots: the recorded ranges are older than theirs, as if "+
			"restored from a backup; stop all replicas and delete the lease", "lease", k.records.key())
	}
}

// read notes a division that follows the present one, and ignores others.
func (c *changes) read(ctx context.Context, k *keeper, lease *coordinationv1.Lease) {
	d, log := c.divided(), klog.FromContext(ctx)
	next, err := parseDivision(lease.Annotations[rangesAnnotation], c.of.options.Slots)
	var leaving []int
	if err == nil {
		var follows bool
		next.uid = string(lease.UID)
		if leaving, follows = d.leaving(next); !follows {
			err = fmt.Errorf("%w: the recorded ranges do not follow those of this replica", ErrConfig)
		}
	}
	if err != nil {
		log.Error(err, "cannot take up the ranges, keeping the present ones", "lease", k.records.key())
		return
	}
	next.heavy = parseHeavy(lease.Annotations[heavyAnnotation])
	c.next = next
	if len(leaving) > 0 {
		log.Info("ranges of slots changed", "version", next.version, "slots", leaving)
	} else if next.String() != d.String() {
		log.Info("weights of slots changed", "version", next.version)
	}
}

// drain ends the functions of the slots that are leaving, and reports whether there are
// any, or claims of them.
func (c *changes) drain(k *keeper) (busy bool) {
	leaving, _ := c.divided().leaving(c.next)
	for _, slot := range leaving {
		h := k.own[slot]
		busy = busy || h != nil || k.claims[slot]
		if h != nil {
			h.cancel(fmt.Errorf("%w: its range changes", ErrMoved))
		}
	}
	return busy
}

// take makes next the division of this replica. Keys that were to be left with slots that
// it no longer holds belong to other slots now.
func (c *changes) take(k *keeper, next *division) {
	leaving, _ := c.divided().leaving(next)
	var homeless []types.NamespacedName
	for _, slot := range leaving {
		homeless = append(homeless, k.left[slot]...)
		delete(k.left, slot)
	}
	c.division.Store(next)
	for _, key := range homeless {
		slot := c.slotOf(key.Namespace)
		k.left[slot] = append(slices.Clip(k.left[slot]), key)
	}
	k.planner.owners = nil
}

// allows reports whether a slot that has no owner, or whose record names this replica, may be claimed. It first raises
// the record if necessary.
func (c *changes) allows(ctx context.Context, k *keeper, slot int, now time.Time) bool {
	d := c.divided()
	switch version := d.versionOf(k.view.slots[slot].Lease); {
	case c.blocked:
		return false
	case c.next != nil && c.next.since[slot] > d.version: // it is leaving
		return false
	case version < d.since[slot]:
		c.raise(ctx, k, slot, now)
		return false
	case version > d.since[slot]: // this replica's division is late
		return false
	default:
		return version == 1 || d.vacant(k.view, slot)
	}
}

// raise sets the record of a slot to the version of its range, when the slot could be claimed.
func (c *changes) raise(ctx context.Context, k *keeper, slot int, now time.Time) {
	seen := k.view.slots[slot].Lease
	if now.Before(k.view.quiet[slot]) || k.claims[slot] {
		return
	}
	base := seen
	if base == nil {
		base = k.records.newSlot(slot)
	}
	var next *coordinationv1.Lease
	if record.Holder(seen) == k.self { // a release failed, or a claim's answer was lost
		next = released(base, k.quiet(), now, c.stampAfter(slot))
		keep(next, append(keysOf(seen), c.homeless(k)...), claimRoom)
	} else {
		next = released(base, 0, now, c.stampAfter(slot))
	}
	k.start(next.Name, now, func() error {
		written, err := k.records.write(ctx, next)
		if err == nil {
			k.reports <- func() error {
				k.mu.Lock()
				defer k.mu.Unlock()
				k.view.observe(written, false, k.now())
				return nil
			}
		}
		return err
	})
}

// homeless returns the keys that this replica could not leave with slots that it does not hold.
func (c *changes) homeless(k *keeper) (keys []types.NamespacedName) {
	for slot, left := range k.left {
		if k.own[slot] == nil {
			keys = append(keys, left...)
		}
	}
	return keys
}

// stampAfter returns the stamp of a slot after its owner has released it: by the next division if there
// is one.
func (c *changes) stampAfter(slot int) stamp {
	if c.next != nil {
		return c.next.stamp(slot)
	}
	return c.divided().stamp(slot)
}

// claimed completes a record that is about to be claimed: with the version of the range,
// and the keys that other records hold for it.
func (c *changes) claimed(ctx context.Context, slot int, next *coordinationv1.Lease) {
	d := c.divided()
	d.stamp(slot).write(next)
	if d.version == 1 {
		return
	}
	before := keysOf(next)
	keys := slices.Concat(before, c.elsewhere(slot, before))
	if len(keys) == len(before) {
		return
	}
	if cut := keep(next, keys, claimRoom); cut > 0 {
		klog.FromContext(ctx).Info("keys not found: the record has no room", "slot", slot, "keys", cut)
	}
}

// elsewhere returns the keys of a slot in the records of others, except those that are known.
func (c *changes) elsewhere(slot int, known []types.NamespacedName) (keys []types.NamespacedName) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	for other, o := range c.of.view.slots {
		if other == slot {
			continue
		}
		for _, key := range keysOf(o.Lease) {
			if c.slotOf(key.Namespace) == slot && !slices.Contains(known, key) && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// isCurrent reports whether the record of a slot, as this replica has it, belongs to the slot's range.
func (c *changes) isCurrent(slot int, lease *coordinationv1.Lease) bool {
	d := c.divided()
	return d.versionOf(lease) == d.since[slot]
}

// foreign returns the keys in the record of a slot that belong to other slots, which have no owner: their next owner
// finds the keys here.
func (c *changes) foreign(slot int, lease *coordinationv1.Lease) (keys []types.NamespacedName) {
	d := c.divided()
	if d.version == 1 {
		return nil
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	for _, key := range keysOf(lease) {
		of := d.slotOf(keyspace.Of(key.Namespace))
		has := c.of.view.slots[of].Lease
		if of != slot && (record.Holder(has) == unowned || d.versionOf(has) < d.since[of]) {
			keys = append(keys, key)
		}
	}
	return keys
}
