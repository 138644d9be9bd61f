package leader

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// observation is the Lease as this replica last saw it. The times in the Lease
// are another clock's and are never compared with ours.
type observation struct {
	lease *coordinationv1.Lease // nil: it does not exist, or was never seen
	held  string                // who held it last, even if it is gone now
	since time.Time             // when the last change was seen
	first time.Time             // when the holder was first seen
}

// saw returns the observation after a look at the Lease. What does not renew it, such as an edit of its labels, does
// not prolong it either.
func (o observation) saw(lease *coordinationv1.Lease, now time.Time) observation {
	if !o.since.IsZero() && sameRecord(o.lease, lease) {
		o.lease = lease // its resourceVersion may be newer
		return o
	}
	next := observation{lease: lease, held: o.held, since: now, first: o.first}
	holder := holderOf(lease)
	if lease != nil {
		next.held = holder
	}
	if holder != holderOf(o.lease) {
		next.first = now
	}
	return next
}

// freeAt is when the Lease may be taken: at once if nobody held it.
func (o observation) freeAt(own time.Duration) time.Time {
	if o.held == "" {
		return o.since
	}
	return o.since.Add(max(own, promisedBy(o.lease)))
}

// sameRecord reports whether nothing happened between two looks that counts: the same holder in the same term has not
// renewed the same object.
func sameRecord(a, b *coordinationv1.Lease) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && holderOf(a) == holderOf(b) && a.Spec.RenewTime.Equal(b.Spec.RenewTime) &&
		ptr.Deref(a.Spec.LeaseTransitions, 0) == ptr.Deref(b.Spec.LeaseTransitions, 0)
}

func holderOf(l *coordinationv1.Lease) string {
	if l == nil {
		return ""
	}
	return ptr.Deref(l.Spec.HolderIdentity, "")
}

// promisedBy is the lease duration that the holder wrote down: it may run with
// other options than we do.
func promisedBy(l *coordinationv1.Lease) time.Duration {
	if l == nil {
		return 0
	}
	return time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0)) * time.Second
}

// taken returns a copy of the Lease with a new holder.
func taken(l *coordinationv1.Lease, holder string, duration time.Duration, now time.Time) *coordinationv1.Lease {
	next := renewed(l, now)
	if holderOf(l) != holder {
		next.Spec.AcquireTime = new(metav1.NewMicroTime(now))
		next.Spec.LeaseTransitions = new(transitions(l))
	}
	next.Spec.HolderIdentity = new(holder)
	next.Spec.LeaseDurationSeconds = new(seconds(duration))
	return next
}

// transitions counts the changes of the holder, as client-go's elector does: the first holder of all is none.
func transitions(l *coordinationv1.Lease) int32 {
	if l.ResourceVersion == "" {
		return 0
	}
	return ptr.Deref(l.Spec.LeaseTransitions, 0) + 1
}

// renewed returns a copy of the Lease with a new renew time.
func renewed(l *coordinationv1.Lease, now time.Time) *coordinationv1.Lease {
	next := l.DeepCopy()
	next.Spec.RenewTime = new(metav1.NewMicroTime(now))
	return next
}

// released returns a copy of the Lease that anybody may take.
func released(l *coordinationv1.Lease, now time.Time) *coordinationv1.Lease {
	next := renewed(l, now)
	next.Spec.HolderIdentity = nil
	next.Spec.LeaseDurationSeconds = new(int32(1))
	return next
}

// seconds rounds up: a promise may be longer than meant, never shorter.
func seconds(d time.Duration) int32 {
	return int32((d + time.Second - 1) / time.Second)
}
