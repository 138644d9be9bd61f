package shard

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/homeostat/homeostat/leader/internal/record"
)

// view is what a replica knows of the records, and since when by its own clock.
type view struct {
	records  records
	duration time.Duration
	renewal  time.Duration // within which a member that is well renews
	member   *record.Member

	members map[string]record.Observation // by name of the record
	slots   []record.Observation
	shy     map[string]bool // members that left a slot that was theirs to take
	changed time.Time       // when the members were last others than before
	last    []string        // the members at that time
}

func newView(r records, o Options, m *record.Member) *view {
	return &view{
		records:  r,
		duration: m.Timing.LeaseDuration,
		renewal:  2*m.Timing.RetryPeriod + m.Timing.RequestTimeout,
		member:   m,
		members:  map[string]record.Observation{},
		slots:    make([]record.Observation, o.Slots),
		shy:      map[string]bool{},
	}
}

// see takes in a record. deleted means that it is gone.
func (v *view) see(lease *coordinationv1.Lease, deleted bool, now time.Time) {
	next := lease
	if deleted {
		next = nil
	}
	switch lease.Labels[kindLabel] {
	case memberKind:
		if holder := record.Holder(v.members[lease.Name].Lease); holder != record.Holder(next) {
			delete(v.shy, holder)
		}
		v.members[lease.Name] = v.members[lease.Name].See(next, now)
	case slotKind:
		if slot, ok := v.records.slotOf(lease, len(v.slots)); ok {
			if holder := record.Holder(next); holder != record.Holder(v.slots[slot].Lease) {
				delete(v.shy, holder) // it does take slots
			}
			v.slots[slot] = v.slots[slot].See(next, now)
		}
	}
}

// replace takes in a list: what is not in it is gone.
func (v *view) replace(list []coordinationv1.Lease, now time.Time) {
	there := map[string]bool{}
	for i := range list {
		there[list[i].Name] = true
		v.see(&list[i], false, now)
	}
	for name, o := range v.members {
		if o.Lease != nil && !there[name] {
			v.members[name] = o.See(nil, now)
		}
	}
	for slot, o := range v.slots {
		if o.Lease == nil || !there[o.Lease.Name] {
			v.slots[slot] = o.See(nil, now)
		}
	}
}

// over tells whether the term of a holder has ended for certain, so that its
// slots may be taken.
func (v *view) over(slot record.Observation, holder, self string, now time.Time) bool {
	if holder == self {
		return false
	}
	if v.member.Was(holder) {
		return true // an earlier term of ours
	}
	member, known := v.members[v.records.memberName(identityOf(holder))]
	switch {
	case !known:
		return !now.Before(slot.Since.Add(v.duration))
	case member.Lease == nil:
		return !now.Before(member.FreeAt(v.duration))
	default:
		return record.Holder(member.Lease) != holder
	}
}

// owner is who may work on a slot: nobody if it may be taken.
func (v *view) owner(slot int, self string, now time.Time) string {
	o := v.slots[slot]
	if o.Lease == nil {
		if now.Before(o.FreeAt(v.duration)) {
			return o.Held // deleted by hand while it was held
		}
		return nobody
	}
	holder := record.Holder(o.Lease)
	if holder != nobody && v.over(o, holder, self, now) {
		return nobody
	}
	return holder
}

func (v *view) owners(self string, now time.Time) []string {
	owners := make([]string, len(v.slots))
	for slot := range owners {
		owners[slot] = v.owner(slot, self, now)
	}
	return owners
}

// living are the members that slots may go to: those that renew, take slots and
// are not about to leave.
func (v *view) living(now time.Time) []string {
	var living []string
	for _, o := range v.members {
		holder := record.Holder(o.Lease)
		if holder == nobody || v.shy[holder] || now.Sub(o.Since) > v.renewal {
			continue
		}
		if o.Lease.Annotations[record.LeavingAnnotation] == "" {
			living = append(living, holder)
		}
	}
	slices.Sort(living)
	if !slices.Equal(living, v.last) {
		v.last, v.changed = living, now
	}
	return living
}

// dead are the members whose lease has expired by our clock, and tombs those
// that are long gone.
func (v *view) dead(self string, now time.Time) (dead, tombs []*coordinationv1.Lease) {
	for name, o := range v.members {
		switch holder := record.Holder(o.Lease); {
		case o.Lease == nil:
			if !now.Before(o.FreeAt(v.duration).Add(v.duration)) {
				delete(v.members, name)
			}
		case holder == self:
		case holder != nobody && !now.Before(o.FreeAt(v.duration)):
			dead = append(dead, o.Lease)
		case holder == nobody && !now.Before(o.Since.Add(2*v.duration)):
			tombs = append(tombs, o.Lease)
		}
	}
	return dead, tombs
}
