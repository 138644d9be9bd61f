package leader

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/leader/internal/record"
)

// Status describes the leadership, as this replica sees it.
type Status struct {
	Lease    types.NamespacedName
	Identity string // this replica's identity, with its random suffix

	// Leading reports whether this replica leads and may write. TrustedUntil is
	// when the replica must stop if no renewal succeeds. It is zero for a
	// standby.
	Leading      bool
	TrustedUntil time.Time
	// Leader is the holder in the Lease that this replica last saw. It is empty
	// if the replica has not seen the Lease yet, and if the Lease has no holder
	// or was deleted. Since is when the replica first saw Leader.
	Leader string
	Since  time.Time
	// Ended is the time until which Leader is known to have led. It is zero
	// while its Lease is valid. Otherwise no replica is known to lead, for
	// example because the API server has not answered for longer than the lease
	// duration.
	Ended time.Time

	Transitions int32 // how often the Lease changed hands
	// Problem is the reason why this replica cannot read, take or renew the
	// Lease, and what to do about it. For example, a permission is missing, or
	// another live replica has the same identity. It is nil if there is no such
	// reason. A failed write remains the Problem until a write succeeds or
	// another client holds the Lease: a read does not show that writes succeed.
	Problem error
}

// Status returns which replica leads, since when, and the last error. It sends
// no request.
func (e *Elector) Status() Status {
	t, c := e.current.Load(), e.candidate
	e.mu.Lock()
	ledUntil := e.ledUntil
	e.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Status{
		Lease:    c.lease.key(),
		Identity: c.holder,
		Leader:   record.Holder(c.seen.Lease),
		Since:    c.seen.HolderSince,
		Problem:  c.problem,
	}
	if c.seen.Lease != nil {
		s.Transitions = ptr.Deref(c.seen.Lease.Spec.LeaseTransitions, 0)
	}
	if t != nil && t.left() > 0 {
		s.Leading, s.TrustedUntil = true, t.trustedUntil()
		return s
	}
	switch isSelf := c.isSelf(s.Leader); {
	case isSelf && t != nil:
		s.Ended = t.trustedUntil()
	case isSelf:
		s.Ended = ledUntil
	case s.Leader != "" && !e.options.Clock.Now().Before(c.seen.FreeAt(e.options.LeaseDuration)):
		s.Ended = c.seen.Since
	}
	return s
}

// LeaseName returns the name of the Lease, without its namespace.
func (e *Elector) LeaseName() string { return e.candidate.lease.Name }

// String returns the text that the String method of [Status] returns.
func (e *Elector) String() string { return e.Status().String() }

// Healthy returns an error if only a restart of the process helps: a function
// still runs longer than [Options].DrainTimeout after its leadership ended, or
// a request has not returned for longer than LeaseDuration. It is for /livez.
func (e *Elector) Healthy() error {
	now, c := e.options.Clock.Now(), e.candidate
	e.mu.Lock()
	ended := e.ended
	e.mu.Unlock()
	c.mu.Lock()
	pending := c.pending
	c.mu.Unlock()
	if d := now.Sub(ended); !ended.IsZero() && d > e.options.DrainTimeout {
		return fmt.Errorf("leading under lease %q: work still runs %v after the leadership ended, longer than "+
			"leader.Options.DrainTimeout (%v), so this replica cannot lead again: restart the process, and make the work end "+
			"with its context", c.lease.key(), d.Round(time.Second), e.options.DrainTimeout)
	}
	if d := now.Sub(pending); !pending.IsZero() && d > e.options.LeaseDuration {
		return fmt.Errorf("requesting lease %q: a request has not returned for %v, longer than leader.Options.LeaseDuration "+
			"(%v), so this replica cannot lead: restart the process, and find what ignores the end of requests, such as the "+
			"credential plugin of a kubeconfig", c.lease.key(), d.Round(time.Second), e.options.LeaseDuration)
	}
	return nil
}

// Ready returns nil if this replica leads. It also returns nil if this replica
// has no Problem (see [Status]) and the Lease has a holder: a standby is ready.
// Otherwise it returns the Problem, such as a missing permission, or an error
// that says that no replica leads yet. It is for /readyz.
func (e *Elector) Ready() error {
	s := e.Status()
	if s.Problem == nil && s.Leader == "" {
		s.Problem = fmt.Errorf("campaigning for lease %q: no replica leads yet", s.Lease)
	}
	if s.Leading {
		return nil
	}
	return s.Problem
}

// String returns a text such as "reboot-7f_02ab04cd leads; this replica has
// seen it since 2026-11-27T12:00:05Z". The time is by the clock of this
// replica, and the holder may have led before this replica started. The text
// also says if the holder of the Lease is not a replica, if no replica is known
// to lead, or if this replica cannot know it.
func (s Status) String() string {
	var b strings.Builder
	seen, ended := s.Since.UTC().Format(time.RFC3339), s.Ended.UTC().Format(time.RFC3339)
	switch replica := isReplica(s.Leader); {
	case s.Leader == "":
		b.WriteString("no replica leads")
	case !replica && s.Ended.IsZero():
		fmt.Fprintf(&b, "no replica of this program leads: %q, which is not the name of one, holds lease %q; this replica "+
			"has seen it since %s", s.Leader, s.Lease, seen)
	case !replica:
		fmt.Fprintf(&b, "no replica is known to lead; %q held lease %q until %s", s.Leader, s.Lease, ended)
	case s.Ended.IsZero():
		fmt.Fprintf(&b, "%s leads; this replica has seen it since %s", s.Leader, seen)
	case s.Problem != nil:
		fmt.Fprintf(&b, "this replica does not know who leads; as far as it knows, %s led until %s", s.Leader, ended)
	default:
		fmt.Fprintf(&b, "no replica is known to lead; %s led until %s", s.Leader, ended)
	}
	if s.Problem != nil {
		fmt.Fprintf(&b, " (%v)", s.Problem)
	}
	return b.String()
}
