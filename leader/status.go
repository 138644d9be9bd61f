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
	Identity string // this replica's, with its random suffix

	// Leading reports whether this replica leads and may write. TrustedUntil is
	// when it must stop if no renewal succeeds; it is zero for a standby.
	Leading      bool
	TrustedUntil time.Time
	// Leader is the last holder that this replica has seen, empty without one,
	// and Since is when it saw that holder first.
	Leader string
	Since  time.Time

	Transitions int32 // how often the Lease changed hands
	// Problem is the reason why the last request for the Lease failed, and what
	// to do about it. It is nil if the request succeeded.
	Problem error
}

// Status returns which replica leads, since when, and the last error. It sends
// no request.
func (e *Elector) Status() Status {
	t, c := e.current.Load(), e.candidate
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
		s.Leading, s.TrustedUntil = true, t.until()
	}
	return s
}

// LeaseName returns the name of the Lease, without its namespace.
func (e *Elector) LeaseName() string { return e.candidate.lease.Name }

// String returns the string of [Status].
func (e *Elector) String() string { return e.Status().String() }

// Healthy is for /livez. An error means that only a restart helps: a function
// still runs long after its leadership ended, or a request has never returned.
func (e *Elector) Healthy() error {
	now, c := e.options.Clock.Now(), e.candidate
	e.mu.Lock()
	ended := e.ended
	e.mu.Unlock()
	c.mu.Lock()
	pending := c.pending
	c.mu.Unlock()
	if d := now.Sub(ended); !ended.IsZero() && d > e.options.DrainTimeout {
		return fmt.Errorf("leading by lease %q: work still runs %v after the leadership ended, "+
			"leader.Options.DrainTimeout is %v", c.lease.key(), d.Round(time.Second), e.options.DrainTimeout)
	}
	if d := now.Sub(pending); !pending.IsZero() && d > e.options.LeaseDuration {
		return fmt.Errorf("asking for lease %q: a request has been under way for %v, "+
			"leader.Options.RenewDeadline is %v", c.lease.key(), d.Round(time.Second), e.options.RenewDeadline)
	}
	return nil
}

// Ready is for /readyz. It returns nil if this or another replica leads; a
// standby is ready. Otherwise it returns why no replica leads. For example,
// permissions are missing.
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

// String returns a text such as "reboot-7f_02ab leads since 12:00:05".
func (s Status) String() string {
	var b strings.Builder
	if s.Leader == "" {
		b.WriteString("no replica leads")
	} else {
		fmt.Fprintf(&b, "%s leads since %s", s.Leader, s.Since.Format(time.TimeOnly))
	}
	if s.Problem != nil {
		fmt.Fprintf(&b, " (%v)", s.Problem)
	}
	return b.String()
}
