package fleet

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
	"github.com/homeostat/homeostat/leader/shard/internal/plan"
)

// memberKept is how long the record of an ended member is kept. Until it is
// deleted, the policy of package fence refuses late writes of that member, for
// example from a paused process.
const memberKept = time.Hour

// View holds the records as this replica last saw them, and when it saw them
// change, by its own clock. The mutex of Replica guards it.
type View struct {
	records  Records
	member   *record.Member
	Duration time.Duration // the lease duration
	renewal  time.Duration // how long a healthy member takes to renew, at most

	Config       *coordinationv1.Lease         // nil if the record was deleted, or was not seen yet
	Members      map[string]record.Observation // the members, by the names of their records
	Slots        []record.Observation
	Quiet        []time.Time     // by slot: the earliest time at which a replica may take the slot after its release
	Unresponsive map[string]bool // members that did not take slots assigned to them
	assignable   []string        // the last result of Assignable
	Changed      time.Time       // when the result of Assignable last changed
}

func newView(r Records, slots int, m *record.Member) *View {
	return &View{
		records:      r,
		member:       m,
		Duration:     m.Timing.LeaseDuration,
		renewal:      2*m.Timing.RetryPeriod + m.Timing.RequestTimeout,
		Members:      map[string]record.Observation{},
		Slots:        make([]record.Observation, slots),
		Quiet:        make([]time.Time, slots),
		Unresponsive: map[string]bool{},
	}
}

// Observe updates the view with a record from an event or a list. deleted is
// true if the record was deleted.
func (v *View) Observe(lease *coordinationv1.Lease, deleted bool, now time.Time) {
	next := lease
	if deleted {
		next = nil
	}
	switch v.records.kindOf(lease) {
	case record.MemberKind:
		if holder := record.Holder(v.Members[lease.Name].Lease); holder != record.Holder(next) {
			delete(v.Unresponsive, holder)
		}
		v.Members[lease.Name] = v.Members[lease.Name].See(next, now)
	case configKind:
		v.Config = next
	case slotKind:
		if slot, ok := v.records.slotOf(lease, len(v.Slots)); ok {
			if holder := record.Holder(next); holder != record.Holder(v.Slots[slot].Lease) {
				delete(v.Unresponsive, holder) // it has just taken a slot
			}
			v.Slots[slot] = v.Slots[slot].See(next, now)
			if !deleted {
				v.Quiet[slot] = v.Slots[slot].QuietUntil()
			}
		}
	}
}

// Replace updates the view with a list of all records. A record that is not
// listed counts as deleted.
func (v *View) Replace(list []coordinationv1.Lease, now time.Time) {
	listed := map[string]bool{}
	for i := range list {
		listed[list[i].Name] = true
		v.Observe(&list[i], false, now)
	}
	if v.Config != nil && !listed[v.Config.Name] {
		v.Config = nil
	}
	for name, o := range v.Members {
		if o.Lease != nil && !listed[name] {
			v.Members[name] = o.See(nil, now)
		}
	}
	for slot, o := range v.Slots {
		if o.Lease == nil || !listed[o.Lease.Name] {
			v.Slots[slot] = o.See(nil, now)
		}
	}
}

// ended reports whether the term of a slot's holder has certainly ended. If it
// has, another member may take the slot.
func (v *View) ended(slot record.Observation, holder, self string, now time.Time) bool {
	switch {
	case holder == self:
		return false
	case v.member.HasTerm(holder): // in an earlier term of this process
		return true
	}
	member, known := v.Members[v.records.MemberName(plan.IdentityOf(holder))]
	switch {
	case !known:
		return !now.Before(slot.Since.Add(v.Duration))
	case member.Lease == nil:
		return !now.Before(member.FreeAt(v.Duration))
	default:
		return record.Holder(member.Lease) != holder
	}
}

// IsUnlisted reports whether the view has no record of the member that is the
// holder of a slot. The record was deleted, or the list was incomplete: see
// [Records.ConfirmEnded]. It returns false if the slot has no holder, or if the
// holder is this process in its present term or an earlier one.
func (v *View) IsUnlisted(holder, self string) bool {
	return holder != plan.Unowned && holder != self && !v.member.HasTerm(holder) &&
		v.Members[v.records.MemberName(plan.IdentityOf(holder))].Lease == nil
}

// Owner returns the name of the member that may work on a slot, or plan.Unowned
// if there is no such member. A slot that was released may be taken only after
// its time in Quiet. For a slot whose record was deleted, Owner returns its
// last holder until a lease duration has passed since the deletion. self is the
// name with which this replica holds slots.
func (v *View) Owner(slot int, self string, now time.Time) string {
	o := v.Slots[slot]
	if o.Lease == nil {
		if now.Before(o.FreeAt(v.Duration)) {
			return o.LastHolder // another client deleted the record of a slot that was held
		}
		return plan.Unowned
	}
	holder := record.Holder(o.Lease)
	if holder != plan.Unowned && v.ended(o, holder, self, now) {
		return plan.Unowned
	}
	return holder
}

// Owners returns the result of Owner for each slot.
func (v *View) Owners(self string, now time.Time) []string {
	owners := make([]string, len(v.Slots))
	for slot := range owners {
		owners[slot] = v.Owner(slot, self, now)
	}
	return owners
}

// Assignable returns the members that slots may be assigned to, sorted: all
// members that renew, take slots and are not leaving.
func (v *View) Assignable(now time.Time) []string {
	var members []string
	for _, o := range v.Members {
		holder := record.Holder(o.Lease)
		if holder == plan.Unowned || v.Unresponsive[holder] || now.Sub(o.Since) > v.renewal {
			continue
		}
		if o.Lease.Annotations[record.LeavingAnnotation] == "" {
			members = append(members, holder)
		}
	}
	slices.Sort(members)
	if !slices.Equal(members, v.assignable) {
		v.assignable, v.Changed = members, now
	}
	return members
}

// Expired returns, as expired, the records of members whose lease has expired
// by this replica's clock. As old it returns the records of members that ended
// so long ago that their records can be deleted. It leaves out self, this
// replica's own member. It also removes from the view the members whose records
// were deleted long ago.
func (v *View) Expired(self string, now time.Time) (expired, old []*coordinationv1.Lease) {
	for name, o := range v.Members {
		switch holder := record.Holder(o.Lease); {
		case o.Lease == nil:
			if !now.Before(o.FreeAt(v.Duration).Add(v.Duration)) {
				delete(v.Members, name)
			}
		case holder == self:
		case holder != plan.Unowned && !now.Before(o.FreeAt(v.Duration)):
			expired = append(expired, o.Lease)
		case holder == plan.Unowned &&
			!now.Before(o.Since.Add(2*v.Duration)) && !now.Before(endedAt(o.Lease).Add(memberKept)):
			old = append(old, o.Lease)
		}
	}
	return expired, old
}

// endedAt returns when the record of an ended member was released, by the clock
// of the replica that released it. If that clock is wrong, the record is
// deleted too early or too late. endedAt returns the zero time if the record
// lacks the time.
func endedAt(lease *coordinationv1.Lease) time.Time {
	if lease.Spec.RenewTime == nil { // another client has edited it
		return time.Time{}
	}
	return lease.Spec.RenewTime.Time
}

// IsStale reports whether the watch must be replaced, because for a lease
// duration it has not shown this replica's own renewals.
func (v *View) IsStale(self string, now time.Time) bool {
	o, ok := v.Members[v.records.MemberName(plan.IdentityOf(self))]
	return ok && now.Sub(o.Since) >= v.Duration
}

// Update is an error of the watch if Err is set, an event if Event is set, and
// otherwise a list.
type Update struct {
	List    []coordinationv1.Lease
	Event   *coordinationv1.Lease
	Deleted bool
	Err     error
}

// Watcher lists and watches the records. It lists again after each gap: there
// are so few records that this is cheaper than a watch that closes gaps.
type Watcher struct {
	records Records
	timing  record.Timing
	Updates chan Update
	Relist  chan struct{} // asks for another list
}

// NewWatcher returns a watcher whose channel has room for the given number of
// updates.
func (r *Replica) NewWatcher(room int) *Watcher {
	return &Watcher{
		records: r.Records, timing: r.Member.Timing, Updates: make(chan Update, room), Relist: make(chan struct{}, 1),
	}
}

// Run lists and watches until ctx ends. It starts over when a watch ends.
func (w *Watcher) Run(ctx context.Context) {
	for ctx.Err() == nil {
		pause := w.timing.RetryPeriod / 10 // protects a server that ends each watch at once
		if err := w.listAndWatch(ctx); err != nil {
			w.send(ctx, Update{Err: err})
			pause = w.timing.RetryPeriod
		}
		record.Sleep(ctx, w.timing.Clock, pause)
	}
}

// listAndWatch lists, and watches until the watch ends or another list is
// requested. If the watch has not opened within AnswerTimeout, listAndWatch
// gives it up, because it can serve no request for a list while it waits.
func (w *Watcher) listAndWatch(ctx context.Context) error {
	select {
	case <-w.Relist: // the list below answers earlier requests, too
	default:
	}
	list, err := w.records.List(ctx)
	if err != nil {
		return w.records.Explain("listing the records of", err)
	}
	w.send(ctx, Update{List: list.Items})
	watching, end := context.WithCancel(ctx)
	defer end()
	timeout := time.AfterFunc(w.timing.AnswerTimeout, end)
	events, err := w.records.leases().Watch(watching, metav1.ListOptions{
		LabelSelector: w.records.selector(), ResourceVersion: list.ResourceVersion,
	})
	timeout.Stop()
	if err != nil {
		return w.records.Explain("watching the records of", err)
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.Relist:
			return nil
		case event, open := <-events.ResultChan():
			if !open {
				return nil
			}
			if event.Type == watch.Error {
				return fmt.Errorf("watching the records of lease %q: %w",
					w.records.Key(), apierrors.FromObject(event.Object))
			}
			if lease, ok := event.Object.(*coordinationv1.Lease); ok {
				w.send(ctx, Update{Event: lease, Deleted: event.Type == watch.Deleted})
			}
		}
	}
}

// send waits until the keeper receives u, or ctx ends.
func (w *Watcher) send(ctx context.Context, u Update) {
	select {
	case <-ctx.Done():
	case w.Updates <- u:
	}
}
