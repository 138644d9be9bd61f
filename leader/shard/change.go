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
// comes to it by itself. A namespace has one owner because of the records of the slots, each of which has the
// version of the division that its range came with.
//
//   - An owner drains the slots whose ranges change, and releases them. It adopts the new division when it has none of
//     them any more, and claims none before.
//   - The record of such a slot is raised to the new version when no request of an owner with the old range can arrive
//     any more: with the release, or later by compare-and-swap, when it could be claimed. It never goes back.
//   - A slot is claimed by a replica whose division has for it the very version that its record has. One whose range
//     has ever changed is claimed only when the range of no record that is still to be raised overlaps it.
//   - The next division is written when all records have been raised.

// changes is a keeper's state of changes of ranges. The keeper's goroutine owns it.
type changes struct {
	*current

	of     *replica
	config *coordinationv1.Lease // the record of the configuration, as it was read last
	next   *division             // that follows the present one; nil if none does

	blocked bool      // slots have owners that divide otherwise, or had until a moment ago
	seen    time.Time // when they had last
	marked  *division // that marks are of
	marks   []string  // by slot
	late    time.Time // since when records are of later versions; zero if none is
	told    bool
}

// change takes up the division that the view shows: the slots that are leaving are drained, and when this replica
// has none of them any more, it is the one that keys are divided by. It reports whether slots are in motion for that,
// here or elsewhere. It returns an [ErrConfig] if the configuration was deleted and recorded anew: replicas that start
// divide by that. The mutex of replica is held.
func (c *changes) change(ctx context.Context, k *keeper) (inMotion bool, err error) {
	if lease := k.view.config; lease != nil && lease != c.config {
		if string(lease.UID) != c.divided().uid {
			return false, fmt.Errorf("%w: lease %q was deleted and recorded anew while replicas ran", ErrConfig, k.records.key())
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

// await notes whether slots have owners that divide otherwise, because another client has edited the configuration, or
// has deleted it: until they have ended, no slot may be claimed, as its range may overlap theirs. One of them
// may be about to claim a slot that another releases, so their end is believed only after a lease duration.
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

// dividesOtherwise reports whether the record of a slot is of ranges that are not those of this replica, nor earlier or
// later ones of the same configuration.
func (c *changes) dividesOtherwise(slot int, record *coordinationv1.Lease) bool {
	if record == nil {
		return false
	}
	d, mark := c.marked, record.Annotations[rangeAnnotation]
	uid, _, _ := strings.Cut(mark, " ")
	return mark != "" && mark != c.marks[slot] && (uid != d.uid || d.versionOf(record) == d.since[slot])
}

// lag logs that slots have ranges of a later version than the recorded ones, when that is not because this replica has
// yet to see these: no replica that starts takes such a slot.
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

// read notes a division that follows the present one, and leaves others alone.
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
		if h != nil && !h.moving {
			h.moving = true
			h.cancel(fmt.Errorf("%w: its range changes", ErrMoved))
		}
	}
	return busy
}

// take makes next the division of this replica. Keys that were to be left with slots that
// it has no more belong to other slots now.
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

// allows reports whether a slot that has no owner, or whose record names this replica, may be claimed. If its record is
// to be raised before, that is done.
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

// raise brings the record of a slot to the version of its range, when the slot could be claimed.
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
	if record.Holder(seen) == k.self { // a release has failed, or the answer to a claim was lost
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

// homeless returns the keys that this replica could not leave with slots that it has not.
func (c *changes) homeless(k *keeper) (keys []types.NamespacedName) {
	for slot, left := range k.left {
		if k.own[slot] == nil {
			keys = append(keys, left...)
		}
	}
	return keys
}

// stampAfter returns the stamp of a slot when its owner has released it: by the next division if there is
// one.
func (c *changes) stampAfter(slot int) stamp {
	if c.next != nil {
		return c.next.stamp(slot)
	}
	return c.divided().stamp(slot)
}

// claimed completes a record that is to be claimed: it has the version of the range, and
// the keys that other records have for it.
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

// elsewhere returns the keys of a slot in the records of others, but for those that are known.
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

// isCurrent reports whether the record of a slot that this replica has is of its range.
func (c *changes) isCurrent(slot int, lease *coordinationv1.Lease) bool {
	d := c.divided()
	return d.versionOf(lease) == d.since[slot]
}

// foreign returns the keys in a record of a slot that are those of other slots which have no owner: the next one finds
// them here.
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
