package leader

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// view is what a replica knows of the records, and since when by its own clock.
type view struct {
	lease    Lease
	duration time.Duration
	renewal  time.Duration // within which a member that is well renews
	process  string        // the start of all our own holders

	members map[string]observation // by name of the record
	slots   []observation
	shy     map[string]bool // members that left a slot that was theirs to take
	changed time.Time       // when the members were last others than before
	last    []string        // the members at that time
}

func newView(l Lease, o ShardOptions, process string) *view {
	return &view{
		lease:    l,
		duration: o.Member.LeaseDuration,
		renewal:  2*o.Member.RetryPeriod + o.Member.RequestTimeout,
		process:  process,
		members:  map[string]observation{},
		slots:    make([]observation, o.Slots),
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
		if holder := holderOf(v.members[lease.Name].lease); holder != holderOf(next) {
			delete(v.shy, holder)
		}
		v.members[lease.Name] = v.members[lease.Name].saw(next, now)
	case slotKind:
		if slot, ok := v.lease.slotOf(lease, len(v.slots)); ok {
			if holder := holderOf(next); holder != holderOf(v.slots[slot].lease) {
				delete(v.shy, holder) // it does take slots
			}
			v.slots[slot] = v.slots[slot].saw(next, now)
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
		if o.lease != nil && !there[name] {
			v.members[name] = o.saw(nil, now)
		}
	}
	for slot, o := range v.slots {
		if o.lease == nil || !there[o.lease.Name] {
			v.slots[slot] = o.saw(nil, now)
		}
	}
}

// over tells whether the term of a holder has ended for certain, so that its
// slots may be taken.
func (v *view) over(slot observation, holder, self string, now time.Time) bool {
	if holder == self {
		return false
	}
	if len(holder) > len(v.process) && holder[:len(v.process)+1] == v.process+"." {
		return true // an earlier term of ours
	}
	member, known := v.members[v.lease.memberName(identityOf(holder))]
	switch {
	case !known:
		return !now.Before(slot.since.Add(v.duration))
	case member.lease == nil:
		return !now.Before(member.freeAt(v.duration))
	default:
		return holderOf(member.lease) != holder
	}
}

// owner is who may work on a slot: nobody if it may be taken.
func (v *view) owner(slot int, self string, now time.Time) string {
	o := v.slots[slot]
	if o.lease == nil {
		if now.Before(o.freeAt(v.duration)) {
			return o.held // deleted by hand while it was held
		}
		return nobody
	}
	holder := holderOf(o.lease)
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
		holder := holderOf(o.lease)
		if holder == nobody || v.shy[holder] || now.Sub(o.since) > v.renewal {
			continue
		}
		if o.lease.Annotations[leavingAnnotation] == "" {
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
		switch holder := holderOf(o.lease); {
		case o.lease == nil:
			if !now.Before(o.freeAt(v.duration).Add(v.duration)) {
				delete(v.members, name)
			}
		case holder == self:
		case holder != nobody && !now.Before(o.freeAt(v.duration)):
			dead = append(dead, o.lease)
		case holder == nobody && !now.Before(o.since.Add(2*v.duration)):
			tombs = append(tombs, o.lease)
		}
	}
	return dead, tombs
}
