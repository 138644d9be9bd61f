package shard

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/leader/internal/record"
)

// When new ranges are considered.
const (
	// still is how long no slot may have moved, no member joined or left, and no ranges been recorded; long is used
	// while the heaviest replica has less than much of the mean, since loads that vary from minute to minute have to be
	// averaged for longer.
	still = 10 * time.Minute
	long  = time.Hour
	much  = 1.5
	// looks is how often in a row, a minute apart, different ranges must have been worth the moves: an edit of
	// a record by another client is overwritten in between.
	looks = 3
)

// Measure publishes the cost of this replica's slots, as returned by work, once a minute until ctx ends. The cost is
// written with the next renewal of the membership, without an extra request. All replicas measure at the same time,
// so that no replica seems heavier than the others when the load grows for all. If this replica is the first member by
// name, it then decides on the ranges.
//
// It calls work from its own goroutine. Errors of recording are logged, and it decides again a minute later.
func (r *Ranges) Measure(ctx context.Context, work func() slots.Work) {
	d := decider{ranges: r, meters: meters{}}
	for {
		before := r.now()
		r.sleep(ctx, before.Truncate(measureEvery).Add(measureEvery).Sub(before))
		if ctx.Err() != nil {
			return
		}
		d.publish(work())
		now, present := r.now(), r.divided()
		s, ok := d.survey(present, now)
		if next := d.look(present, s, ok, now); next != nil {
			if err := d.record(ctx, next); err != nil {
				klog.FromContext(ctx).Error(err, "cannot record other ranges, retrying", "lease", r.records.key())
			}
		}
	}
}

// publish writes the costs of slots into the record of this member.
func (d *decider) publish(w slots.Work) {
	r := d.ranges
	present, now, self := r.divided(), r.now(), r.elector.Status().Identity
	measured := d.meters.measure(present, w, now)
	r.Shards.mu.Lock()
	all, members := r.view.loads(present, r.view.owners(self, now)), len(r.view.assignable(now))
	r.Shards.mu.Unlock()
	present.detailed(measured, all, members, w.Objects)
	r.member.Publish(published{r.member.Process, present.version, measured}.String())
}

// loads returns the costs that the owners of slots have published.
func (v *view) loads(d *division, owners []string) []load {
	all, read := make([]load, len(owners)), map[string]map[int]load{}
	for slot, owner := range owners {
		of, known := read[owner]
		lease := v.members[v.records.memberName(identityOf(owner))].Lease
		if !known && owner != unowned && record.Holder(lease) == owner {
			of = d.parseLoads(lease.Annotations[record.LoadAnnotation], owner)
			read[owner] = of
		}
		all[slot] = of[slot]
	}
	return all
}

// decider measures the costs of slots, and decides on the ranges if this replica is the first member by name.
type decider struct {
	ranges   *Ranges
	meters   meters
	division *division
	since    time.Time // when division was adopted
	worth    int       // how often in a row different ranges have been worth their moves
}

// look returns different ranges if they have been worth the moves often enough. ok reports whether s is complete.
func (d *decider) look(present *division, s survey, ok bool, now time.Time) *proposal {
	if d.division == nil || d.division.String() != present.String() {
		d.since, d.worth = now, 0
	}
	d.division = present
	quiet := min(now.Sub(d.since), now.Sub(s.moved))
	var next *proposal
	if ok && quiet >= still {
		next = present.improve(s)
	}
	if next == nil || next.from < much && quiet < long {
		d.worth = 0
		return nil
	}
	if d.worth++; d.worth < looks {
		return nil
	}
	return next
}

// survey returns the state of all slots. It reports false if this replica should not decide, if the last change of
// the ranges has not finished, or if a slot has no owner or its cost is not known.
func (d *decider) survey(present *division, now time.Time) (s survey, ok bool) {
	r := d.ranges
	self := r.elector.Status().Identity
	r.Shards.mu.Lock()
	defer r.Shards.mu.Unlock()
	v := r.view
	s.owners, s.members = v.owners(self, now), v.assignable(now)
	if len(s.members) == 0 || s.members[0] != self || !present.raised(v) {
		return survey{}, false
	}
	s.loads, s.moved = v.loads(present, s.owners), v.changed
	for slot, owner := range s.owners {
		_, member := slices.BinarySearch(s.members, owner)
		if !member || !s.loads[slot].Measured {
			return survey{}, false
		}
		if since := v.slots[slot].Since; since.After(s.moved) {
			s.moved = since
		}
	}
	return s, true
}

// record replaces the recorded ranges, if they are still those that next was derived from.
func (d *decider) record(ctx context.Context, next *proposal) error {
	r := d.ranges
	lease, err := r.records.read(ctx, r.records.name)
	if err != nil {
		return r.records.explain("reading", err)
	}
	if string(lease.UID) != d.division.uid || lease.Annotations[rangesAnnotation] != d.division.String() {
		return nil // this replica has not seen them yet
	}
	annotate(lease, rangesAnnotation, next.String())
	annotate(lease, heavyAnnotation, formatHeavy(next.heavy))
	if _, err = r.records.update(ctx, lease); err != nil && !apierrors.IsConflict(err) {
		return r.records.explain("writing", err)
	}
	if err == nil {
		klog.FromContext(ctx).Info("recorded ranges that suit the present costs of slots", "lease", r.records.key(),
			"changed", next.changed, "heaviestNow", fmt.Sprintf("%.2f of the mean", next.from),
			"heaviestThen", fmt.Sprintf("%.2f", next.to))
	}
	return nil
}
