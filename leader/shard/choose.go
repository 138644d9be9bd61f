package shard

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/leader/internal/record"
)

// All replicas that have slots have the same ranges, which are those in the record of the configuration:
//
//   - A replica chooses ranges before it joins, and only if a list shows that no slot has an owner and that there is no
//     member. It writes them by compare-and-swap with the record that it read before that list.
//   - In each term a member adopts the recorded ranges before it claims a slot. It marks their record, also by
//     compare-and-swap, so that a replica whose list was made before this one was a member cannot replace them.
//   - A replica ends when the recorded ranges are deleted, or are not its own. Another client can do that. The record of
//     a slot names the range with which it was claimed, and no slot is claimed while another has an owner with a
//     range that differs from the recorded one.

// The parts of a configuration with ranges. divisionAnnotation is unique to each choice of ranges, and enteredAnnotation
// has the last member that adopted them.
const (
	rangesAnnotation   = "leader.homeostat.dev/ranges"
	heavyAnnotation    = "leader.homeostat.dev/heavy" // the namespaces that may be too heavy for a replica
	divisionAnnotation = "leader.homeostat.dev/division"
	enteredAnnotation  = "leader.homeostat.dev/entered"
	byRange            = "range of namespaces"
	rangeHash          = "fnv1a-64"
)

// rangeAnnotation has, in the record of a slot, the division and the range with which the slot was claimed.
const rangeAnnotation = "leader.homeostat.dev/range"

// adopted are the ranges of a replica in one term.
type adopted struct {
	*division

	id   string // of the choice
	text string // as it is recorded
	keys []types.NamespacedName
}

// mark returns the mark of a slot with its range.
func (a *adopted) mark(slot int) string {
	r := a.rangeOf(slot)
	return fmt.Sprintf("%s %x-%x", a.id, r.First, r.Last)
}

// settings returns the annotations on which replicas of ranges must agree.
func (r *Ranges) settings() map[string]string {
	ours := r.options.annotations()
	ours[byAnnotation], ours[hashAnnotation] = byRange, rangeHash
	return ours
}

// choose chooses the ranges and records them, if no replica has a slot or can get one. Otherwise enter adopts the
// recorded ones.
func (r *Ranges) choose(ctx context.Context) error {
	config, err := r.records.read(ctx, r.records.name)
	missing := record.IsNotFound(err, r.records.name)
	switch {
	case missing:
		config = r.records.newConfig(nil)
	case err != nil:
		return r.records.explain("reading", err)
	default:
		if err := r.records.compare(config.Annotations, r.settings()); err != nil {
			return err
		}
	}
	list, err := r.records.list(ctx)
	if err != nil {
		return r.records.explain("listing the records of", err)
	}
	now := r.now()
	left, vacant := r.vacant(list.Items, config, now)
	switch {
	case vacant:
		return r.record(ctx, config, left)
	case missing:
		return r.expire(ctx, now)
	default:
		return nil
	}
}

// vacant notes a list of the records. It reports whether it is certain that no slot has an owner, that there is no
// member, and that no canceled request of one can still arrive, and returns the keys that were left with the slots.
func (r *Ranges) vacant(
	list []coordinationv1.Lease, config *coordinationv1.Lease, now time.Time,
) (left []types.NamespacedName, ok bool) {
	r.Shards.mu.Lock()
	defer r.Shards.mu.Unlock()
	v := r.view
	v.replace(list, now)
	for _, o := range v.members {
		if record.Holder(o.Lease) != unowned || now.Before(o.FreeAt(v.duration)) {
			return nil, false
		}
	}
	for slot, o := range v.slots {
		if v.owner(slot, unowned, now) != unowned || now.Before(v.quiet[slot]) {
			return nil, false
		}
		left = append(left, keysOf(o.Lease)...)
	}
	return append(left, r.unfound(config)...), true
}

// expire ends the membership of members that have not renewed it for a lease duration, as members do: then ranges can be
// chosen although the recorded ones were deleted.
func (r *Ranges) expire(ctx context.Context, now time.Time) error {
	r.Shards.mu.Lock()
	expired, _ := r.view.expired(unowned, now)
	r.Shards.mu.Unlock()
	for _, lease := range expired {
		if _, err := r.records.update(ctx, record.Released(lease, 0, now)); err != nil {
			return r.records.explain("writing a record of", err)
		}
	}
	return fmt.Errorf("choosing ranges: lease %q was deleted, and another replica may still work", r.records.key())
}

// unfound returns the keys that were recorded with the ranges, except those whose slot has had an owner that released
// it since: that one has found them. The mutex of replica is held.
func (r *Ranges) unfound(config *coordinationv1.Lease) []types.NamespacedName {
	a, err := r.parse(config)
	return slices.DeleteFunc(keysOf(config), func(key types.NamespacedName) bool {
		if err != nil {
			return false
		}
		slot := a.slotOf(key.Namespace)
		lease := r.view.slots[slot].Lease
		return record.Holder(lease) == unowned && annotation(lease, rangeAnnotation) == a.mark(slot)
	})
}

// record counts the objects and records ranges of equal weight. If another replica was faster, its ranges count.
func (r *Ranges) record(ctx context.Context, config *coordinationv1.Lease, left []types.NamespacedName) error {
	var namespaces map[string]int
	if r.primary != nil {
		var err error
		if namespaces, err = r.primary.CountNamespaces(ctx); err != nil {
			return err
		}
	}
	d, log := divide(namespaces, r.options.Slots), klog.FromContext(ctx).WithValues("lease", r.records.key())
	for _, of := range d.heavy {
		if of.Share > 1.0/3 {
			log.Info("namespace too heavy to be balanced: shards do not divide it",
				"namespace", of.Name, "objects", namespaces[of.Name], "ofAll", of.Share)
		}
	}
	for name, text := range r.settings() {
		annotate(config, name, text)
	}
	annotate(config, divisionAnnotation, string(uuid.NewUUID()))
	annotate(config, rangesAnnotation, d.String())
	annotate(config, heavyAnnotation, formatHeavy(d.heavy))
	if cut := keep(config, left, allRoom); cut > 0 {
		log.Info("keys not left with the slots: the record has no room, their next owners may miss them", "keys", cut)
	}
	_, err := r.records.write(ctx, config)
	switch {
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		return r.records.explain("writing", err)
	}
	log.Info("ranges chosen", "namespaces", len(namespaces))
	return nil
}

// enter adopts the recorded ranges for a term, before which this replica has no slot.
func (r *Ranges) enter(ctx context.Context) error {
	return r.retry(ctx, "adopting the recorded ranges", func(ctx context.Context) error {
		for {
			if err := r.adopt(ctx); !apierrors.IsConflict(err) { // others enter, too
				return err
			}
		}
	})
}

func (r *Ranges) adopt(ctx context.Context) error {
	config, err := r.records.read(ctx, r.records.name)
	if record.IsNotFound(err, r.records.name) {
		return r.deleted()
	}
	if err != nil {
		return r.records.explain("reading", err)
	}
	if err := r.records.compare(config.Annotations, r.settings()); err != nil {
		return err
	}
	next, err := r.parse(config)
	if err != nil {
		return err
	}
	config.Labels = r.records.newConfig(nil).Labels // those that the watch selects
	annotate(config, enteredAnnotation, r.elector.Status().Identity)
	if _, err := r.records.update(ctx, config); apierrors.IsConflict(err) {
		return err
	} else if err != nil {
		return r.records.explain("writing", err)
	}
	r.recorded.Store(next)
	r.Shards.mu.Lock()
	defer r.Shards.mu.Unlock()
	left := r.Shards.left
	r.Shards.left = map[int][]types.NamespacedName{}
	for _, keys := range left { // their slots may be others now
		for _, key := range keys {
			slot := next.slotOf(key.Namespace)
			r.Shards.left[slot] = append(r.Shards.left[slot], key)
		}
	}
	return nil
}

// parse returns the ranges of a configuration.
func (r *Ranges) parse(config *coordinationv1.Lease) (*adopted, error) {
	a := &adopted{
		id: config.Annotations[divisionAnnotation], text: config.Annotations[rangesAnnotation], keys: keysOf(config),
	}
	var err error
	a.division, err = parseDivision(a.text, r.options.Slots)
	if err == nil {
		a.heavy = parseHeavy(config.Annotations[heavyAnnotation])
	}
	return a, err
}

func (r *Ranges) deleted() error {
	return fmt.Errorf("%w: lease %q was deleted while replicas ran", ErrConfig, r.records.key())
}

// decide returns an [ErrConfig] if this replica's ranges are no longer the recorded ones. It reports false while a slot
// has an owner with another range, or had one in the last lease duration: the owner may be about to claim more. The
// mutex of replica is held.
func (r *Ranges) decide(ctx context.Context, self string, now time.Time) (claims bool, err error) {
	a, v := r.recorded.Load(), r.view
	switch {
	case v.config == nil:
		return false, r.deleted()
	case v.config.Annotations[divisionAnnotation] != a.id, v.config.Annotations[rangesAnnotation] != a.text:
		return false, fmt.Errorf("%w: other ranges were recorded in lease %q while replicas ran", ErrConfig, r.records.key())
	}
	for slot, o := range v.slots {
		mark := annotation(o.Lease, rangeAnnotation)
		owner := v.owner(slot, self, now)
		if mark == "" || owner == unowned || owner == self || mark == a.mark(slot) {
			continue
		}
		if r.foreign.IsZero() {
			klog.FromContext(ctx).Info("another replica uses different shard ranges, not claiming shards until it ends",
				"lease", r.records.key(), "owner", owner, "slot", slot)
		}
		r.foreign = now
		return false, nil
	}
	if now.Sub(r.foreign) < r.member.Timing.LeaseDuration {
		return false, nil
	}
	r.foreign = time.Time{}
	return true, nil
}

func (r *Ranges) mark(slot int) string { return r.recorded.Load().mark(slot) }

// left returns those of the keys in the record of a slot, and of the keys recorded with the ranges, that belong to it.
func (r *Ranges) left(slot int, recorded []types.NamespacedName) []types.NamespacedName {
	a := r.recorded.Load()
	return slices.DeleteFunc(slices.Concat(recorded, a.keys), func(key types.NamespacedName) bool {
		return a.slotOf(key.Namespace) != slot
	})
}
