package ranges

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
	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/leader/shard/internal/fleet"
	"github.com/homeostat/homeostat/leader/shard/internal/plan"
)

// All replicas that have slots use the same ranges: the ranges in the record of
// the configuration. Three rules ensure that:
//
//   - A replica chooses ranges before it joins, and only if a list shows that
//     no slot has an owner and that there is no member. It writes them by
//     compare-and-swap with the record that it read before that list.
//   - In each term a member adopts the recorded ranges before it claims a slot.
//     It marks their record, also by compare-and-swap, so that a replica whose
//     list did not yet show this member cannot replace them.
//   - A replica ends when another client has deleted or replaced the recorded
//     ranges. The record of a slot names the range with which the slot was
//     claimed, and no slot is claimed while another slot has an owner with a
//     range that differs from the recorded one.

// The annotations of a configuration with ranges, and its settings. The value
// of divisionAnnotation is unique to each choice of ranges. enteredAnnotation
// names the last member that adopted them.
const (
	rangesAnnotation   = "leader.homeostat.dev/ranges"
	heavyAnnotation    = "leader.homeostat.dev/heavy" // the namespaces that may be too heavy for a replica
	divisionAnnotation = "leader.homeostat.dev/division"
	enteredAnnotation  = "leader.homeostat.dev/entered"
	byRange            = "range of namespaces"
	rangeHash          = "fnv1a-64"
)

// rangeAnnotation is in the record of a slot. It names the division and the
// range with which the slot was claimed.
const rangeAnnotation = "leader.homeostat.dev/range"

// adopted holds the ranges that a replica uses in one term.
type adopted struct {
	*plan.Division

	id   string                 // identifies the choice of ranges
	text string                 // the recorded form of the ranges
	keys []types.NamespacedName // the keys that were left over from slots of earlier ranges
}

// mark returns the value of rangeAnnotation for a slot.
func (a *adopted) mark(slot int) string {
	r := a.RangeOf(slot)
	return fmt.Sprintf("%s %x-%x", a.id, r.First, r.Last)
}

// Choose chooses the ranges and records them, if no replica has a slot or can
// get one. Otherwise it leaves the recorded ranges alone, and Enter adopts
// them. If there are no recorded ranges although a replica may still be
// working, it returns an error.
func (r divider) Choose(ctx context.Context) error {
	config, err := r.replica.Records.Read(ctx, r.replica.Records.Name)
	missing := record.IsNotFound(err, r.replica.Records.Name)
	switch {
	case missing:
		config = r.replica.Records.NewConfig(nil)
	case err != nil:
		return r.replica.Records.Explain("reading", err)
	default:
		if err := r.replica.Records.Compare(config.Annotations, r.replica.Settings); err != nil {
			return err
		}
	}
	list, err := r.replica.Records.List(ctx)
	if err != nil {
		return r.replica.Records.Explain("listing the records of", err)
	}
	now := r.replica.Now()
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

// vacant applies a list of the records to the view, and returns the keys that
// were left with the slots. It reports whether it is certain that no slot has
// an owner, that there is no member, and that no canceled request of a former
// member can still arrive.
func (r *Shards) vacant(
	list []coordinationv1.Lease, config *coordinationv1.Lease, now time.Time,
) (left []types.NamespacedName, ok bool) {
	r.replica.Lock()
	defer r.replica.Unlock()
	v := r.replica.View
	v.Replace(list, now)
	for _, o := range v.Members {
		if record.Holder(o.Lease) != plan.Unowned || now.Before(o.FreeAt(v.Duration)) {
			return nil, false
		}
	}
	for slot, o := range v.Slots {
		if v.Owner(slot, plan.Unowned, now) != plan.Unowned || now.Before(v.Quiet[slot]) {
			return nil, false
		}
		left = append(left, fleet.KeysOf(o.Lease)...)
	}
	return append(left, r.unclaimed(config)...), true
}

// expire ends the membership of members that have not renewed it for a lease
// duration, as members do for each other. It is needed if the recorded ranges
// were deleted: without it, ranges could not be chosen while the record of a
// dead member exists. It always returns an error, because the caller must
// retry.
func (r *Shards) expire(ctx context.Context, now time.Time) error {
	r.replica.Lock()
	expired, _ := r.replica.View.Expired(plan.Unowned, now)
	r.replica.Unlock()
	for _, lease := range expired {
		if _, err := r.replica.Records.Update(ctx, record.Released(lease, 0, now)); err != nil {
			return r.replica.Records.Explain("writing a record of", err)
		}
	}
	return fmt.Errorf("choosing ranges: lease %q was deleted, but another replica may still be working",
		r.replica.Records.Key())
}

// unclaimed returns the keys that were recorded with the ranges, except for
// keys whose slot has had an owner since. That owner has already got its keys.
// The caller holds the mutex of Replica.
func (r *Shards) unclaimed(config *coordinationv1.Lease) []types.NamespacedName {
	a, err := r.parse(config)
	return slices.DeleteFunc(fleet.KeysOf(config), func(key types.NamespacedName) bool {
		if err != nil {
			return false
		}
		slot := a.SlotOf(key.Namespace)
		lease := r.replica.View.Slots[slot].Lease
		return record.Holder(lease) == plan.Unowned && fleet.Annotation(lease, rangeAnnotation) == a.mark(slot)
	})
}

// record counts the objects and records ranges of equal weight. If another
// replica was faster, its ranges are used.
func (r *Shards) record(ctx context.Context, config *coordinationv1.Lease, left []types.NamespacedName) error {
	var namespaces map[string]int
	if r.primary != nil {
		var err error
		if namespaces, err = r.primary.CountNamespaces(ctx); err != nil {
			return err
		}
	}
	d := plan.Divide(namespaces, len(r.replica.View.Slots))
	log := klog.FromContext(ctx).WithValues("lease", r.replica.Records.Key())
	for _, heavy := range d.Heavy {
		if heavy.Share > 1.0/3 {
			log.Info("namespace has too many objects to be balanced: shards do not divide a namespace",
				"namespace", heavy.Name, "objects", namespaces[heavy.Name], "share", heavy.Share)
		}
	}
	for name, text := range r.replica.Settings {
		fleet.Annotate(config, name, text)
	}
	fleet.Annotate(config, divisionAnnotation, string(uuid.NewUUID()))
	fleet.Annotate(config, rangesAnnotation, d.String())
	fleet.Annotate(config, heavyAnnotation, plan.FormatHeavy(d.Heavy))
	if cut := fleet.Keep(config, left, fleet.AllRoom); cut > 0 {
		log.Info("the record is full, the next owners of the slots may miss some keys", "keys", cut)
	}
	_, err := r.replica.Records.Write(ctx, config)
	switch {
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		return r.replica.Records.Explain("writing", err)
	}
	log.Info("ranges chosen", "namespaces", len(namespaces))
	return nil
}

// Enter adopts the recorded ranges for a term. Before that, this replica has no
// slot in the term.
func (r divider) Enter(ctx context.Context) error {
	return r.replica.Retry(ctx, "adopting the recorded ranges", func(ctx context.Context) error {
		for {
			if err := r.adopt(ctx); !apierrors.IsConflict(err) { // another replica has entered
				return err
			}
		}
	})
}

// adopt reads the recorded ranges and marks their record as adopted by this
// member.
func (r *Shards) adopt(ctx context.Context) error {
	config, err := r.replica.Records.Read(ctx, r.replica.Records.Name)
	if record.IsNotFound(err, r.replica.Records.Name) {
		return r.deleted()
	}
	if err != nil {
		return r.replica.Records.Explain("reading", err)
	}
	if err := r.replica.Records.Compare(config.Annotations, r.replica.Settings); err != nil {
		return err
	}
	next, err := r.parse(config)
	if err != nil {
		return err
	}
	config.Labels = r.replica.Records.NewConfig(nil).Labels // the watch selects them
	fleet.Annotate(config, enteredAnnotation, r.replica.Elector.Status().Identity)
	if _, err := r.replica.Records.Update(ctx, config); apierrors.IsConflict(err) {
		return err
	} else if err != nil {
		return r.replica.Records.Explain("writing", err)
	}
	r.recorded.Store(next)
	r.replica.Rehome(next.SlotOf)
	return nil
}

// parse returns the ranges in the record of a configuration.
func (r *Shards) parse(config *coordinationv1.Lease) (*adopted, error) {
	a := &adopted{
		id: config.Annotations[divisionAnnotation], text: config.Annotations[rangesAnnotation], keys: fleet.KeysOf(config),
	}
	var err error
	if a.Division, err = plan.Parse(a.text, len(r.replica.View.Slots)); err != nil {
		return a, fmt.Errorf("%w: %w", shard.ErrConfig, err)
	}
	a.Heavy = plan.ParseHeavy(config.Annotations[heavyAnnotation])
	return a, nil
}

// deleted returns the error for the case that another client has deleted the
// recorded ranges.
func (r *Shards) deleted() error {
	return fmt.Errorf("%w: lease %q was deleted while replicas ran", shard.ErrConfig, r.replica.Records.Key())
}

// Decide returns an error that wraps [shard.ErrConfig] if this replica's ranges
// are no longer the recorded ones. It reports whether this replica may claim
// slots. The replica must not claim slots while a slot has an owner with a
// different range, and for a lease duration after that, because that owner may
// be about to claim more slots. The caller holds the mutex of Replica.
func (r divider) Decide(ctx context.Context, self string, now time.Time) (claims bool, err error) {
	a, v := r.recorded.Load(), r.replica.View
	switch {
	case v.Config == nil:
		return false, r.deleted()
	case v.Config.Annotations[divisionAnnotation] != a.id, v.Config.Annotations[rangesAnnotation] != a.text:
		return false, fmt.Errorf("%w: other ranges were recorded in lease %q while replicas ran",
			shard.ErrConfig, r.replica.Records.Key())
	}
	for slot, o := range v.Slots {
		mark := fleet.Annotation(o.Lease, rangeAnnotation)
		owner := v.Owner(slot, self, now)
		if mark == "" || owner == plan.Unowned || owner == self || mark == a.mark(slot) {
			continue
		}
		if r.foreign.IsZero() {
			klog.FromContext(ctx).Info("another replica uses different shard ranges, not claiming shards until it ends",
				"lease", r.replica.Records.Key(), "owner", owner, "slot", slot)
		}
		r.foreign = now
		return false, nil
	}
	if now.Sub(r.foreign) < r.replica.Member.Timing.LeaseDuration {
		return false, nil
	}
	r.foreign = time.Time{}
	return true, nil
}

// Claim marks the record of a slot with the slot's range.
func (r divider) Claim(lease *coordinationv1.Lease, slot int) {
	fleet.Annotate(lease, rangeAnnotation, r.recorded.Load().mark(slot))
}

// Left returns the keys that belong to a slot: keys in its record, and keys
// that were recorded with the ranges.
func (r divider) Left(slot int, recorded []types.NamespacedName) []types.NamespacedName {
	a := r.recorded.Load()
	return slices.DeleteFunc(slices.Concat(recorded, a.keys), func(key types.NamespacedName) bool {
		return a.SlotOf(key.Namespace) != slot
	})
}
