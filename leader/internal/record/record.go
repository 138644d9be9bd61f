// Package record reads and writes the Leases in which package leader and
// package shard keep their state.
package record

import (
	"context"
	"errors"
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
	GroupLabel = "leader.homeostat.dev/shards" // the name of shard.New's Lease
	KindLabel  = "leader.homeostat.dev/record"
	MemberKind = "member"
)

// MemberPrefix returns the prefix of the names of members' records; the rest is
// the member's identity. group is the name of the Lease given to shard.New.
func MemberPrefix(group string) string { return group + "-member-" }

// SlotPrefix returns the prefix of the names of slots' records; the rest is the
// slot's number.
func SlotPrefix(group string) string { return group + "-slot-" }

// MemberLabels returns the labels of members' records.
func MemberLabels(group string) map[string]string {
	return map[string]string{GroupLabel: group, KindLabel: MemberKind}
}

// ReleaseTries bounds the attempts of a release after conflicts. A conflict
// means that another client has edited the Lease, or that an earlier renewal of
// this replica, whose answer was lost, has succeeded after all.
const ReleaseTries = 3

// Observation is a Lease as this replica last saw it. The times in the Lease
// are from another machine's clock and are never compared with this replica's.
type Observation struct {
	Lease *coordinationv1.Lease // nil if the Lease does not exist, or was never seen
	// LastHolder is the holder in the last Lease that was seen, even after the
	// Lease was deleted. It is empty if that Lease was released.
	LastHolder  string
	UID         types.UID // the UID of the last Lease, even after it was deleted
	Since       time.Time // when the last renewal or change of the holder was seen
	HolderSince time.Time // when the present holder, or its absence, was first seen
}

// See returns the observation after the Lease was read at now. lease is nil if
// it was not found. An edit that does not change the holder or the renew time,
// for example a new label, does not count as a renewal.
func (o Observation) See(lease *coordinationv1.Lease, now time.Time) Observation {
	if !o.Since.IsZero() && isSameTerm(o.Lease, lease) {
		o.Lease = lease // its resourceVersion may be newer
		return o
	}
	next := Observation{Lease: lease, LastHolder: o.LastHolder, UID: o.UID, Since: now, HolderSince: o.HolderSince}
	holder := Holder(lease)
	if lease != nil {
		next.LastHolder, next.UID = holder, lease.UID
	}
	if holder != Holder(o.Lease) {
		next.HolderSince = now
	}
	return next
}

// FreeAt returns the time at which the last holder's lease expires for this
// replica, or Since if LastHolder is empty. duration is this replica's lease
// duration. FreeAt does not consider the quiet period of a released Lease; see
// [Observation.QuietUntil].
func (o Observation) FreeAt(duration time.Duration) time.Time {
	if o.LastHolder == "" {
		return o.Since
	}
	return o.Since.Add(max(duration, promised(o.Lease)))
}

// isSameTerm reports whether the Lease was not renewed between two reads: both
// show the same object, with the same holder in the same term and the same
// renew time.
func isSameTerm(a, b *coordinationv1.Lease) bool {
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

// Shows reports whether l is the Lease after the server has stored change. This
// is so if l has the holder and the renew time of change, but a newer
// resourceVersion than the Lease that change was made from. No other process
// writes this holder, and no two writes of this process have the same renew
// time.
func Shows(l, change *coordinationv1.Lease) bool {
	return l.Spec.RenewTime != nil && Holder(l) == Holder(change) && l.ResourceVersion != change.ResourceVersion &&
		sameTime(l.Spec.RenewTime, change.Spec.RenewTime)
}

// sameTime reports whether a and b are the same time, as precisely as the API
// stores it. Both may be nil.
func sameTime(a, b *metav1.MicroTime) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Truncate(time.Microsecond).Equal(b.Truncate(time.Microsecond))
}

// promised returns the lease duration that the holder wrote into the Lease. The
// holder's options may differ from this replica's.
func promised(l *coordinationv1.Lease) time.Duration {
	if l == nil {
		return 0
	}
	return time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0)) * time.Second
}

// Taken returns a copy of l in which holder has taken the Lease for duration at
// the time now.
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

// transitions returns the value of leaseTransitions after the next change of
// the holder. Like client-go's elector, it does not count the first holder. At
// the maximum of an int32 the number stays unchanged, because a larger one
// would overflow, and servers refuse a negative number.
func transitions(l *coordinationv1.Lease) int32 {
	if l.ResourceVersion == "" {
		return 0
	}
	return max(0, min(ptr.Deref(l.Spec.LeaseTransitions, 0), math.MaxInt32-1)) + 1
}

// Renewed returns a copy of l in which the holder has renewed the Lease at the
// time now.
func Renewed(l *coordinationv1.Lease, now time.Time) *coordinationv1.Lease {
	next := l.DeepCopy()
	next.Spec.RenewTime = new(metav1.NewMicroTime(now))
	return next
}

// Released returns a copy of l without a holder. Requests of the former holder
// may still arrive within quiet, so another replica takes the Lease only when
// it has seen the released Lease for that long.
func Released(l *coordinationv1.Lease, quiet time.Duration, now time.Time) *coordinationv1.Lease {
	next := Renewed(l, now)
	next.Spec.HolderIdentity = nil
	next.Spec.LeaseDurationSeconds = new(int32(1))
	if quiet > 0 {
		next.Spec.LeaseDurationSeconds = new(max(2, seconds(quiet)))
	}
	return next
}

// QuietUntil returns the time before which no replica may take a released
// Lease, because requests of the former holder may still arrive. It returns the
// zero time if the Lease has a holder, or if a replica may take the Lease at
// once.
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

// Explain wraps an error of the API server. doing says what the request was
// for, such as "reading". If a permission or the namespace is missing, the
// result says what an administrator can do about it, for example grant the
// client verbs on leases.
func Explain(doing string, lease types.NamespacedName, verbs string, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s lease %q: grant %s on leases of coordination.k8s.io in "+
			"namespace %q: %w", doing, lease, verbs, lease.Namespace, err)
	case absent.Namespace(err, lease.Namespace):
		return fmt.Errorf("%s lease %q: namespace %q must exist: %w", doing, lease, lease.Namespace, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s lease %q: no answer in time: %s: %w", doing, lease, causeOf(err, CauseUnknown), err)
	default:
		return fmt.Errorf("%s lease %q: %w", doing, lease, err)
	}
}

// Informed returns err with what the client of the request knows about the
// cause. For example, the client may know the account whose token was refused.
// If the client has no method Explain, Informed returns err itself.
func Informed(client any, err error) error {
	if c, ok := client.(interface{ Explain(err error) error }); ok {
		return c.Explain(err)
	}
	return err
}

// The ends of messages about a request without an answer.
const (
	HowToDecide = "run `kubectl get --raw '/readyz?verbose'` on another machine: an answer means that the fault is on " +
		"the way from this replica to the server, and no answer means that it is the API server"
	CauseUnknown = "the API server is slow or hangs, or packets are lost: " + HowToDecide
)

// CauseError is the error of a request that was not answered in time. Cause is
// the reason, as far as it is known.
type CauseError struct {
	Err   error
	Cause string
}

func (c *CauseError) Error() string { return c.Err.Error() }

// Unwrap returns the error without the cause.
func (c *CauseError) Unwrap() error { return c.Err }

// causeOf returns what is known about the reason for err, or fallback if the
// reason is unknown.
func causeOf(err error, fallback string) string {
	if c, ok := errors.AsType[*CauseError](err); ok {
		return c.Cause
	}
	return fallback
}

// DrainingError is the cause of a context that has ended although the replica
// still holds the Lease or the slot. The replica holds it until the function
// with that context returns, to let reconciles in flight finish.
type DrainingError string

func (d DrainingError) Error() string { return string(d) }

// Draining returns true, which means that reconciles in flight may finish.
func (d DrainingError) Draining() bool { return true }

type ownKey struct{}

// WithOwn returns a context for a request that owner makes for its own Leases.
// The returned context does not end with ctx, since a request that is cut off
// could leave a Lease taken.
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
