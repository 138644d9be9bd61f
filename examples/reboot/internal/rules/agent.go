package rules

import (
	"errors"
	"fmt"
	"time"

	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

// An AgentStep is an agent's next step.
type AgentStep string

// The steps of an agent.
const (
	Idle     AgentStep = "idle"
	Accept   AgentStep = "accept"   // reboot-now becomes in-progress
	Refuse   AgentStep = "refuse"   // reboot-now becomes reboot-needed: the clocks differ
	Resume   AgentStep = "resume"   // ForProgress says how
	Complete AgentStep = "complete" // in-progress becomes last-reboot
	Restamp  AgentStep = "restamp"  // last-reboot learns of a boot without a request
)

// MaxApart is how far the clocks of controller and node may differ: a grant that is
// older, or younger, is not accepted.
const MaxApart = time.Minute

// Agent returns the agent's next step on a node whose kernel has the given boot
// id. Errors: an annotation that must be read for it has a fault, or there is no
// boot id; the node is then left as it is.
func Agent(s protocol.State, bootID string, now time.Time) (AgentStep, error) {
	if err := s.Fault(protocol.Now, protocol.InProgress, protocol.Permit); err != nil {
		return Idle, err
	}
	if bootID == "" {
		return Idle, errors.New("deciding about a reboot: the kernel's boot id is empty")
	}
	switch {
	case s.InProgress != nil && s.InProgress.BootID == bootID:
		return Resume, nil
	case s.InProgress != nil:
		return Complete, nil
	case s.Now != nil && s.Now.At.IsZero():
		return Idle, nil // An older controller has granted it, which would permit nothing.
	case s.Now != nil && Apart(s.Now, now) != "":
		return Refuse, nil
	case s.Now != nil && s.Now.Expired(now):
		return Idle, nil // The controller revokes it.
	case s.Now != nil:
		return Accept, nil
	case s.Last != nil && s.Last.ToBootID != bootID:
		return Restamp, nil
	default:
		return Idle, nil
	}
}

// Apart says that the node's clock and the controller's differ, or that the
// agent sees the grant too late to tell. It is empty if they agree.
func Apart(g *protocol.Grant, now time.Time) string {
	apart := now.Sub(g.At.Time)
	if apart.Abs() <= MaxApart {
		return ""
	}
	return fmt.Sprintf("the controller's clock showed %s at the grant, and the node's shows %s: "+
		"nothing begins while they differ by more than %v", stamp(g.At.Time), stamp(now), MaxApart)
}

// A ProgressStep is an agent's next step of a reboot that it has accepted.
type ProgressStep string

// The steps of an accepted reboot.
const (
	Evict ProgressStep = "evict" // a pass over the Pods
	Ask   ProgressStep = "ask"   // whether the machine may go down now
	Await ProgressStep = "await" // the answer
	Tell  ProgressStep = "tell"  // the machine to reboot
	Told  ProgressStep = "told"  // this start has told it
	Lost  ProgressStep = "lost"  // an earlier start has told it, and the same boot runs
)

// ForProgress returns the next step of a reboot in progress for the given start
// of the agent. An agent that has only just started asks again: it does not
// know how old its predecessor's question is.
func ForProgress(p *protocol.Progress, permit *protocol.Permission, start string) ProgressStep {
	switch {
	case p.Asked != nil && p.Asked.Start == start:
		return Told
	case p.MayGoDown():
		return Lost
	case !p.Drained:
		return Evict
	case !p.Waits || p.Start != start:
		return Ask
	case permit.Answers(p):
		return Tell
	default:
		return Await
	}
}

// Asks reports whether the agent asks for the reboot that a file of its host
// requires: request names file and time, and is empty when there is no file. A
// file that still exists after its reboot does not ask again.
func Asks(s protocol.State, request string) bool {
	if request == "" || s.Needed != nil || s.Now != nil || s.InProgress != nil || s.Fault() != nil {
		return false
	}
	return s.Last == nil || s.Last.Result == protocol.CalledOff || s.Last.Request.Request != request
}
