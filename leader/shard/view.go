package shard

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/leader/internal/record"
)

// memberKept is how long the record of a member that ended is kept. Package fence's
// policy uses it to refuse late writes, from a slow network or a paused process.
const memberKept = time.Hour

// view holds the records as this replica last saw them, and since when by its own
// clock. The mutex of replica guards it.
type view struct {
	records  records
	member   *record.Member
	duration time.Duration // of a lease
	renewal  time.Duration // within which a healthy member renews

	config       *coordinationv1.Lease         // nil if it was deleted
	members      map[string]record.Observation // by name of the record
	slots        []record.Observation
	quiet        []time.Time     // until when released slots are not to be taken
	unresponsive map[string]bool // members that did not take a slot assigned to them
	last         []string        // the members that slots may go to
	changed      time.Time       // when those last changed
}

// newView returns a view without any record.
func newView(r records, slots int, m *record.Member) *view {
	return &view{
		records:      r,
		member:       m,
		duration:     m.Timing.LeaseDuration,
		renewal:      2*m.Timing.RetryPeriod + m.Timing.RequestTimeout,
		members:      map[string]record.Observation{},
		slots:        make([]record.Observation, slots),
		quiet:        make([]time.Time, slots),
		unresponsive: map[string]bool{},
	}
}

// observe notes a record of an event or a list.
func (v *view) observe(lease *coordinationv1.Lease, deleted bool, now time.Time) {
	next := lease
	if deleted {
		next = nil
	}
	switch lease.Labels[record.KindLabel] {
	case record.MemberKind:
		if holder := record.Holder(v.members[lease.Name].Lease); holder != record.Holder(next) {
			delete(v.unresponsive, holder)
		}
		v.members[lease.Name] = v.members[lease.Name].See(next, now)
	case configKind:
		if lease.Name == v.records.name {
			v.config = next
		}
	case slotKind, rangeKind:
		if slot, ok := v.records.slotOf(lease, len(v.slots)); ok {
			if holder := record.Holder(next); holder != record.Holder(v.slots[slot].Lease) {
				delete(v.unresponsive, holder) // it does take slots
			}
			v.slots[slot] = v.slots[slot].See(next, now)
			if !deleted {
				v.quiet[slot] = v.slots[slot].QuietUntil()
			}
		}
	}
}

// replace notes a list: a record that is not in it was deleted.
func (v *view) replace(list []coordinationv1.Lease, now time.Time) {
	listed := map[string]bool{}
	for i := range list {
		listed[list[i].Name] = true
		v.observe(&list[i], false, now)
	}
	if v.config != nil && !listed[v.config.Name] {
		v.config = nil
	}
	for name, o := range v.members {
		if o.Lease != nil && !listed[name] {
			v.members[name] = o.See(nil, now)
		}
	}
	for slot, o := range v.slots {
		if o.Lease == nil || !listed[o.Lease.Name] {
			v.slots[slot] = o.See(nil, now)
		}
	}
}

// ended reports whether the term of the slot's holder has certainly ended, so that the
// slot may be taken.
func (v *view) ended(slot record.Observation, holder, self string, now time.Time) bool {
	switch {
	case holder == self:
		return false
	case v.member.Was(holder): // an earlier term of this process
		return true
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

// owner returns the member that may work on a slot, unowned if the slot may be
// taken.
func (v *view) owner(slot int, self string, now time.Time) string {
	o := v.slots[slot]
	if o.Lease == nil {
		if now.Before(o.FreeAt(v.duration)) {
			return o.Held // another client deleted the record of a slot that was held
		}
		return unowned
	}
	holder := record.Holder(o.Lease)
	if holder != unowned && v.ended(o, holder, self, now) {
		return unowned
	}
	return holder
}

// owners returns the owner of each slot.
func (v *view) owners(self string, now time.Time) []string {
	owners := make([]string, len(v.slots))
	for slot := range owners {
		owners[slot] = v.owner(slot, self, now)
	}
	return owners
}

// assignable returns the members that slots may go to, sorted: those that
// renew, take slots and are not leaving.
func (v *view) assignable(now time.Time) []string {
	var members []string
	for _, o := range v.members {
		holder := record.Holder(o.Lease)
		if holder == unowned || v.unresponsive[holder] || now.Sub(o.Since) > v.renewal {
			continue
		}
		if o.Lease.Annotations[record.LeavingAnnotation] == "" {
			members = append(members, holder)
		}
	}
	slices.Sort(members)
	if !slices.Equal(members, v.last) {
		v.last, v.changed = members, now
	}
	return members
}

// expired returns the records of members whose lease has expired by this replica's
// clock, and those of members that ended long ago and can be deleted.
func (v *view) expired(self string, now time.Time) (expired, old []*coordinationv1.Lease) {
	for name, o := range v.members {
		switch holder := record.Holder(o.Lease); {
		case o.Lease == nil:
			if !now.Before(o.FreeAt(v.duration).Add(v.duration)) {
				delete(v.members, name)
			}
		case holder == self:
		case holder != unowned && !now.Before(o.FreeAt(v.duration)):
			expired = append(expired, o.Lease)
		case holder == unowned && !now.Before(o.Since.Add(2*v.duration)) && !now.Before(endedAt(o.Lease).Add(memberKept)):
			old = append(old, o.Lease)
		}
	}
	return expired, old
}

// endedAt returns when the record of an ended member was released, by the clock of the
// replica that released it. A wrong clock deletes the record too early or too late.
func endedAt(lease *coordinationv1.Lease) time.Time {
	if lease.Spec.RenewTime == nil { // another client's
		return time.Time{}
	}
	return lease.Spec.RenewTime.Time
}

// isStale reports whether the watch has not shown this replica's own renewals
// for so long that it must be broken.
func (v *view) isStale(self string, now time.Time) bool {
	o, ok := v.members[v.records.memberName(identityOf(self))]
	return ok && now.Sub(o.Since) >= v.duration
}

// update is a list, an event or an error of the watch.
type update struct {
	list    []coordinationv1.Lease
	event   *coordinationv1.Lease
	deleted bool
	err     error
}

// watcher lists and watches the records. There are few of them, so that a list
// costs less than closing gaps in a watch would.
type watcher struct {
	records records
	timing  record.Timing
	updates chan update
	relist  chan struct{} // asks for another list
}

// run lists and watches until ctx ends, again whenever the watch ends.
func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause := w.timing.RetryPeriod / 10 // for a server that ends each watch at once
		if err := w.once(ctx); err != nil {
			w.send(ctx, update{err: err})
			pause = w.timing.RetryPeriod
		}
		record.Sleep(ctx, w.timing.Clock, pause)
	}
}

// once lists, and watches until the watch ends or another list is requested. A watch that has not opened within a
// request's timeout ends: nothing is listed until it does.
func (w *watcher) once(ctx context.Context) error {
	list, err := w.records.list(ctx)
	if err != nil {
		return w.records.explain("listing the records of", err)
	}
	w.send(ctx, update{list: list.Items})
	watching, end := context.WithCancel(ctx)
	defer end()
	late := time.AfterFunc(w.timing.AnswerTimeout, end)
	events, err := w.records.leases().Watch(watching, metav1.ListOptions{
		LabelSelector: w.records.selector(), ResourceVersion: list.ResourceVersion,
	})
	late.Stop()
	if err != nil {
		return w.records.explain("watching the records of", err)
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.relist:
			return nil
		case event, open := <-events.ResultChan():
			if !open {
				return nil
			}
			if event.Type == watch.Error {
				return fmt.Errorf("watching the records of lease %q: %w",
					w.records.key(), apierrors.FromObject(event.Object))
			}
			if lease, ok := event.Object.(*coordinationv1.Lease); ok {
				w.send(ctx, update{event: lease, deleted: event.Type == watch.Deleted})
			}
		}
	}
}

// send waits until the keeper receives u, or ctx ends.
func (w *watcher) send(ctx context.Context, u update) {
	select {
	case <-ctx.Done():
	case w.updates <- u:
	}
}
