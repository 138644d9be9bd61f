// Package record reads and writes the Leases that package leader and package
// shard keep their state in.
package record

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/internal/absent"
)

// The labels of the records of shards.
const (
	GroupLabel = "leader.homeostat.dev/shards" // the name of the Lease given to New
	KindLabel  = "leader.homeostat.dev/record"
	MemberKind = "member"
)

// MemberPrefix is how the names of the records of members begin; their identity
// follows. group is the name of the Lease given to New.
func MemberPrefix(group string) string { return group + "-member-" }

// SlotPrefix is how the names of the records of slots begin.
func SlotPrefix(group string) string { return group + "-slot-" }

// MemberLabels are those of the records of members.
func MemberLabels(group string) map[string]string {
	return map[string]string{GroupLabel: group, KindLabel: MemberKind}
}

// ReleaseTries bounds the conflicts that a release retries: each means that a
// renewal of our own, whose answer was lost, succeeded after all.
const ReleaseTries = 3

// Observation is a Lease as this replica last saw it. The times in the Lease
// are another clock's and are never compared with ours.
type Observation struct {
	Lease *coordinationv1.Lease // nil: it does not exist, or was never seen
	Held  string                // the last holder, even after the Lease was deleted
	Since time.Time             // when the last change was seen
	First time.Time             // when the holder was first seen
}

// See returns the observation after the Lease was read at now; lease is nil if
// it was not found. An edit that does not renew the Lease, such as a new label,
// does not prolong it.
func (o Observation) See(lease *coordinationv1.Lease, now time.Time) Observation {
	if !o.Since.IsZero() && same(o.Lease, lease) {
		o.Lease = lease // its resourceVersion may be newer
		return o
	}
	next := Observation{Lease: lease, Held: o.Held, Since: now, First: o.First}
	holder := Holder(lease)
	if lease != nil {
		next.Held = holder
	}
	if holder != Holder(o.Lease) {
		next.First = now
	}
	return next
}

// FreeAt returns when the Lease may be taken by a replica whose own lease
// duration is own: at once if it had no holder.
func (o Observation) FreeAt(own time.Duration) time.Time {
	if o.Held == "" {
		return o.Since
	}
	return o.Since.Add(max(own, promised(o.Lease)))
}

// same reports whether the Lease was not renewed between two reads: it is the
// same object, with the same holder in the same term.
func same(a, b *coordinationv1.Lease) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && Holder(a) == Holder(b) && a.Spec.RenewTime.Equal(b.Spec.RenewTime) &&
		ptr.Deref(a.Spec.LeaseTransitions, 0) == ptr.Deref(b.Spec.LeaseTransitions, 0)
}

// Holder returns the holder of l; empty if there is none, or l is nil.
func Holder(l *coordinationv1.Lease) string {
	if l == nil {
		return ""
	}
	return ptr.Deref(l.Spec.HolderIdentity, "")
}

// Shows reports whether l has been written as change says, which has the
// resourceVersion of the Lease before: no other process writes its holder, and no two
// writes of this one have the same renew time.
func Shows(l, change *coordinationv1.Lease) bool {
	if l.Spec.RenewTime == nil || Holder(l) != Holder(change) || l.ResourceVersion == change.ResourceVersion {
		return false
	}
	precision := func(t *metav1.MicroTime) time.Time { return t.Truncate(time.Microsecond) } // that of the API
	return precision(l.Spec.RenewTime).Equal(precision(change.Spec.RenewTime))
}

// promised returns the lease duration that the holder wrote down: its options
// may differ from ours.
func promised(l *coordinationv1.Lease) time.Duration {
	if l == nil {
		return 0
	}
	return time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0)) * time.Second
}

// Taken returns a copy of l with a new holder.
func Taken(l *coordinationv1.Lease, holder string, duration time.Duration, now time.Time) *coordinationv1.Lease {
	next := Renewed(l, now)
	if Holder(l) != holder {
		next.Spec.AcquireTime = new(metav1.NewMicroTime(now))
		next.Spec.LeaseTransitions = new(transitions(l))
	}
	next.Spec.HolderIdentity = new(holder)
	next.Spec.LeaseDurationSeconds = new(seconds(duration))
	return next
}

// transitions counts the changes of the holder, as client-go's elector does,
// which does not count the first holder.
func transitions(l *coordinationv1.Lease) int32 {
	if l.ResourceVersion == "" {
		return 0
	}
	return ptr.Deref(l.Spec.LeaseTransitions, 0) + 1
}

// Renewed returns a copy of l with a new renew time.
func Renewed(l *coordinationv1.Lease, now time.Time) *coordinationv1.Lease {
	next := l.DeepCopy()
	next.Spec.RenewTime = new(metav1.NewMicroTime(now))
	return next
}

// Released returns a copy of l that any replica may take after it has seen it for
// quiet, within which requests of the holder may still arrive.
func Released(l *coordinationv1.Lease, quiet time.Duration, now time.Time) *coordinationv1.Lease {
	next := Renewed(l, now)
	next.Spec.HolderIdentity = nil
	next.Spec.LeaseDurationSeconds = new(int32(1))
	if quiet > 0 {
		next.Spec.LeaseDurationSeconds = new(max(2, seconds(quiet)))
	}
	return next
}

// QuietUntil returns until when a Lease that was released is not to be taken; zero if it
// is free or has a holder.
func (o Observation) QuietUntil() time.Time {
	if d := promised(o.Lease); o.Lease != nil && Holder(o.Lease) == "" && d > time.Second {
		return o.Since.Add(d)
	}
	return time.Time{}
}

// seconds rounds up: the promise must not be shorter than the duration.
func seconds(d time.Duration) int32 {
	return int32((d + time.Second - 1) / time.Second)
}

// Explain wraps an error of the API server and names the way out. The client
// needs verbs on leases.
func Explain(doing string, lease types.NamespacedName, verbs string, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s lease %q: grant %s on leases of coordination.k8s.io in "+
			"namespace %q: %w", doing, lease, verbs, lease.Namespace, err)
	case absent.Namespace(err, lease.Namespace):
		return fmt.Errorf("%s lease %q: namespace %q must exist: %w", doing, lease, lease.Namespace, err)
	default:
		return fmt.Errorf("%s lease %q: %w", doing, lease, err)
	}
}

// DrainingError is the cause of a context whose lease or slot is held until the
// function returns, so that reconciles in flight may finish.
type DrainingError string

func (d DrainingError) Error() string { return string(d) }

// Draining reports true.
func (d DrainingError) Draining() bool { return true }

type ownKey struct{}

// WithOwn returns a context for a request that owner makes for its own Leases.
// It does not end with ctx: an answer that is never read could leave a Lease
// taken.
func WithOwn(ctx context.Context, owner any) context.Context {
	return context.WithValue(context.WithoutCancel(ctx), ownKey{}, owner)
}

// IsOwn reports whether ctx is that of a request for owner's own Leases.
func IsOwn(ctx context.Context, owner any) bool { return ctx.Value(ownKey{}) == owner }

// IsNotFound reports whether err proves that the Lease of that name does not exist:
// it is the server's own answer about it, not the page of a proxy.
func IsNotFound(err error, name string) bool {
	return absent.Proven(err, coordinationv1.Resource("leases"), name)
}

// Sleep waits until d has passed or ctx has ended.
func Sleep(ctx context.Context, c clock.Clock, d time.Duration) {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}
