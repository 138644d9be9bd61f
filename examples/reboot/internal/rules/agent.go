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
	Resume   AgentStep = "resume"   // ForProgress returns the step
	Complete AgentStep = "complete" // in-progress becomes last-reboot
	Restamp  AgentStep = "restamp"  // last-reboot records a boot without a request
)

// MaxApart is how far the clocks of controller and node may differ. A grant
// whose time differs more is not accepted.
const MaxApart = time.Minute

// Agent returns the agent's next step on a node whose kernel has the given boot
// id.
//
// Errors: a required annotation has a fault, or the boot id is empty. The node
// is not changed then.
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
		return Idle, nil // An older controller has granted it, and gives no permits.
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

// Apart returns how the clocks of node and controller differ. It also reports a
// grant that is too old to tell. It returns the empty string if the clocks
// agree.
func Apart(g *protocol.Grant, now time.Time) string {
	apart := now.Sub(g.At.Time)
	if apart.Abs() <= MaxApart {
		return ""
	}
	return fmt.Sprintf("the controller's clock showed %s at the grant, and the node's shows %s: "+
		"nothing begins while they differ by more than %v", stamp(g.At.Time), stamp(now), MaxApart)
}

// A ProgressStep is an agent's next step of an accepted reboot.
type ProgressStep string

// The steps of an accepted reboot.
const (
	Evict ProgressStep = "evict" // make a pass over the Pods
	Ask   ProgressStep = "ask"   // ask whether the machine may go down now
	Await ProgressStep = "await" // wait for the answer
	Tell  ProgressStep = "tell"  // tell the machine to reboot
	Told  ProgressStep = "told"  // this start has told it
	Lost  ProgressStep = "lost"  // an earlier start has told it, and the same boot runs
)

// ForProgress returns the next step of a reboot in progress for the given start
// of the agent. An agent that has just started asks again, because it does not
// know the age of the previous question.
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

// Asks reports whether the agent must request the reboot that a file of its
// host requires. request contains the file's name and time, and is empty
// without a file. A file that still exists after its reboot makes no second
// request.
func Asks(s protocol.State, request string) bool {
	if request == "" || s.Needed != nil || s.Now != nil || s.InProgress != nil || s.Fault() != nil {
		return false
	}
	return s.Last == nil || s.Last.Result == protocol.CalledOff || s.Last.Request.Request != request
}
