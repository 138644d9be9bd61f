package leader

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/leader/internal/record"
)

// Status is who leads, as this replica sees it.
type Status struct {
	Lease    types.NamespacedName
	Identity string // this replica's, with its random suffix

	Leading      bool      // this replica leads, and may write
	Leader       string    // the holder last seen; empty if there was none
	Since        time.Time // when this replica first saw that holder
	Transitions  int32     // how often the Lease changed hands
	TrustedUntil time.Time // while leading: when writes end without a renewal
	Problem      error     // why the last request for the Lease failed, and the way out
}

// Status returns who leads, since when, and what is wrong.
func (e *Elector) Status() Status {
	t := e.current.Load()
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Status{
		Lease:    e.lease.key(),
		Identity: e.holder,
		Leader:   record.Holder(e.seen.Lease),
		Since:    e.seen.First,
		Problem:  e.problem,
	}
	if e.seen.Lease != nil {
		s.Transitions = ptr.Deref(e.seen.Lease.Spec.LeaseTransitions, 0)
	}
	if t != nil && t.left() > 0 {
		s.Leading, s.TrustedUntil = true, t.until()
	}
	return s
}

// LeaseName returns the name of the Lease, without its namespace.
func (e *Elector) LeaseName() string { return e.lease.Name }

// String is that of [Status].
func (e *Elector) String() string { return e.Status().String() }

// Healthy is for livez: an error means that only a restart helps, because work
// goes on long after its leadership ended or a request never returned.
func (e *Elector) Healthy() error {
	now := e.options.Clock.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if d := now.Sub(e.ended); !e.ended.IsZero() && d > e.options.DrainTimeout {
		return fmt.Errorf("leading by lease %q: work still runs %v after the leadership ended, "+
			"Options.DrainTimeout is %v", e.lease.key(), d.Round(time.Second), e.options.DrainTimeout)
	}
	if d := now.Sub(e.pending); !e.pending.IsZero() && d > e.options.LeaseDuration {
		return fmt.Errorf("asking for lease %q: a request has been under way for %v, "+
			"Options.RequestTimeout is %v", e.lease.key(), d.Round(time.Second), e.options.RequestTimeout)
	}
	return nil
}

// Ready is for readyz: nil if this replica leads or another does, otherwise the
// reason, such as missing permissions. A standby is ready.
func (e *Elector) Ready() error {
	s := e.Status()
	switch {
	case s.Leading:
		return nil
	case s.Problem != nil:
		return s.Problem
	case s.Leader == "":
		return fmt.Errorf("campaigning for lease %q: nobody leads yet", s.Lease)
	default:
		return nil
	}
}

// String reads like "reboot-7f_02ab leads since 12:00:05".
func (s Status) String() string {
	var b strings.Builder
	if s.Leader == "" {
		b.WriteString("nobody leads")
	} else {
		fmt.Fprintf(&b, "%s leads since %s", s.Leader, s.Since.Format(time.TimeOnly))
	}
	if s.Problem != nil {
		fmt.Fprintf(&b, " (%v)", s.Problem)
	}
	return b.String()
}
