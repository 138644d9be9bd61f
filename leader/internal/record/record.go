// Package record reads and writes the Leases in which package leader and
// package shard keep their state.
package record

import (
	"context"
	"fmt"
	"math"
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

// MemberPrefix returns the prefix of the names of members' records; the rest is
// the member's identity. group is the name of the Lease given to New.
func MemberPrefix(group string) string { return group + "-member-" }

// SlotPrefix returns the prefix of the names of slots' records; the rest is the
// slot's number.
func SlotPrefix(group string) string { return group + "-slot-" }

// MemberLabels returns the labels of members' records.
func MemberLabels(group string) map[string]string {
	return map[string]string{GroupLabel: group, KindLabel: MemberKind}
}

// ReleaseTries bounds the attempts of a release after conflicts. A conflict
// means that an earlier renewal of this replica, whose answer was lost, has
// succeeded after all.
const ReleaseTries = 3

// Observation is a Lease as this replica last saw it. The times in the Lease
// are from another machine's clock and are never compared with this replica's.
type Observation struct {
	Lease       *coordinationv1.Lease // nil: it does not exist, or was never seen
	LastHolder  string                // the last holder, even after the Lease was deleted
	Since       time.Time             // when the last renewal or change of the holder was seen
	HolderSince time.Time             // when the holder was first seen
}

// See returns the observation after the Lease was read at now. lease is nil if
// it was not found. An edit that does not renew the Lease, for example a new
// label, does not prolong it.
func (o Observation) See(lease *coordinationv1.Lease, now time.Time) Observation {
	if !o.Since.IsZero() && same(o.Lease, lease) {
		o.Lease = lease // its resourceVersion may be newer
		return o
	}
	next := Observation{Lease: lease, LastHolder: o.LastHolder, Since: now, HolderSince: o.HolderSince}
	holder := Holder(lease)
	if lease != nil {
		next.LastHolder = holder
	}
	if holder != Holder(o.Lease) {
		next.HolderSince = now
	}
	return next
}

// FreeAt returns when the Lease may be taken by a replica whose own lease
// duration is own. A Lease that had no holder may be taken immediately.
func (o Observation) FreeAt(own time.Duration) time.Time {
	if o.LastHolder == "" {
		return o.Since
	}
	return o.Since.Add(max(own, promised(o.Lease)))
}

// same reports whether the Lease was not renewed between two reads: both show
// the same object, with the same holder in the same term and the same renew
// time.
func same(a, b *coordinationv1.Lease) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && Holder(a) == Holder(b) && a.Spec.RenewTime.Equal(b.Spec.RenewTime) &&
		ptr.Deref(a.Spec.LeaseTransitions, 0) == ptr.Deref(b.Spec.LeaseTransitions, 0)
}

// Holder returns the holder of l, or "" if l is nil or has no holder.
func Holder(l *coordinationv1.Lease) string {
	if l == nil {
		return ""
	}
	return ptr.Deref(l.Spec.HolderIdentity, "")
}

// Shows reports whether l is the result of the write change. It is if it has
// the holder and the renew time of change, but a newer resourceVersion than the
// Lease that change was made from. No other process writes this holder, and no
// two writes of this process have the same renew time.
func Shows(l, change *coordinationv1.Lease) bool {
	if l.Spec.RenewTime == nil || Holder(l) != Holder(change) || l.ResourceVersion == change.ResourceVersion {
		return false
	}
	precision := func(t *metav1.MicroTime) time.Time { return t.Truncate(time.Microsecond) } // as the API stores it
	return precision(l.Spec.RenewTime).Equal(precision(change.Spec.RenewTime))
}

// promised returns the lease duration that the holder wrote into the Lease. The
// holder's options may differ from this replica's.
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

// transitions returns the number of changes of the holder after the next
// change. Like client-go's elector, it does not count the first holder. It stays
// at the greatest number, because servers refuse a negative one.
func transitions(l *coordinationv1.Lease) int32 {
	if l.ResourceVersion == "" {
		return 0
	}
	return max(0, min(ptr.Deref(l.Spec.LeaseTransitions, 0), math.MaxInt32-1)) + 1
}

// Renewed returns a copy of l with a new renew time.
func Renewed(l *coordinationv1.Lease, now time.Time) *coordinationv1.Lease {
	next := l.DeepCopy()
	next.Spec.RenewTime = new(metav1.NewMicroTime(now))
	return next
}

// Released returns a copy of l without a holder. Requests of the former holder
// may still arrive within quiet, so any other replica takes the Lease only
// after it has seen it for that long.
func Released(l *coordinationv1.Lease, quiet time.Duration, now time.Time) *coordinationv1.Lease {
	next := Renewed(l, now)
	next.Spec.HolderIdentity = nil
	next.Spec.LeaseDurationSeconds = new(int32(1))
	if quiet > 0 {
		next.Spec.LeaseDurationSeconds = new(max(2, seconds(quiet)))
	}
	return next
}

// QuietUntil returns until when a released Lease must not be taken. It returns
// the zero time if the Lease is free or has a holder.
func (o Observation) QuietUntil() time.Time {
	if d := promised(o.Lease); o.Lease != nil && Holder(o.Lease) == "" && d > time.Second {
		return o.Since.Add(d)
	}
	return time.Time{}
}

// seconds returns d in seconds, rounded up: the recorded duration must not be
// shorter than d.
func seconds(d time.Duration) int32 {
	return int32((d + time.Second - 1) / time.Second)
}

// Explain wraps an error of the API server. The result says what an
// administrator can do about it, for example to grant the client verbs on
// leases.
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

// DrainingError is a cause of a context whose Lease or slot is held until the
// function returns, so that reconciles in flight may finish.
type DrainingError string

func (d DrainingError) Error() string { return string(d) }

// Draining reports true.
func (d DrainingError) Draining() bool { return true }

type ownKey struct{}

// WithOwn returns a context for a request that owner makes for its own Leases.
// It does not end with ctx, since a request that is cut off could leave a Lease
// taken.
func WithOwn(ctx context.Context, owner any) context.Context {
	return context.WithValue(context.WithoutCancel(ctx), ownKey{}, owner)
}

// IsOwn reports whether ctx belongs to a request for owner's own Leases.
func IsOwn(ctx context.Context, owner any) bool { return ctx.Value(ownKey{}) == owner }

// IsNotFound reports whether err proves that the Lease with that name does not
// exist. Only the server's own answer about this Lease proves it, not the page
// of a proxy.
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
