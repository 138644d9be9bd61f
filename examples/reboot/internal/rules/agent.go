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
	Refuse   AgentStep = "refuse"   // reboot-now becomes reboot-needed, because the clocks differ
	Resume   AgentStep = "resume"   // ForProgress returns the step
	Complete AgentStep = "complete" // in-progress becomes last-reboot
	Restamp  AgentStep = "restamp"  // last-reboot gets the id of a boot that no request caused
)

// MaxApart is how far the clocks of the controller and the node may differ. The
// agent does not accept a grant whose time differs by more than MaxApart from
// the node's clock.
const MaxApart = time.Minute

// Agent returns the agent's next step on a node whose kernel has the given boot
// id. It returns an error if reboot-now, reboot-in-progress or reboot-permit
// cannot be parsed, or if the boot id is empty. In that case the agent must not
// change the node.
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
		return Idle, nil // A controller of an older release made the grant, and would give no permits.
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

// Apart describes the difference between now, the time by the node's clock, and
// the time of the grant by the controller's clock. It returns the empty string
// if the difference is at most MaxApart. An old grant cannot be distinguished
// from a difference of the clocks.
func Apart(g *protocol.Grant, now time.Time) string {
	difference := now.Sub(g.At.Time)
	if difference.Abs() <= MaxApart {
		return ""
	}
	return fmt.Sprintf("the controller's clock showed %s at the grant, and the node's shows %s: "+
		"no reboot begins while the clocks differ by more than %v", stamp(g.At.Time), stamp(now), MaxApart)
}

// A ProgressStep is the agent's next step in a reboot that it has accepted.
type ProgressStep string

// The steps of an accepted reboot.
const (
	Evict ProgressStep = "evict" // make a pass over the Pods
	Ask   ProgressStep = "ask"   // ask whether the machine may go down now
	Await ProgressStep = "await" // wait for the answer
	Tell  ProgressStep = "tell"  // tell the machine to reboot
	Told  ProgressStep = "told"  // this run of the agent has told it, or was about to
	Lost  ProgressStep = "lost"  // an earlier run may have told it, and the boot is still the same
)

// ForProgress returns the agent's next step in the reboot that p describes.
// permit is the permission on the node, or nil. start identifies the current
// run of the agent. After a restart, the agent asks the controller again,
// because it cannot know how old the last question is. It does not ask if an
// earlier run may have told the machine: then the step is Lost.
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

// Asks reports whether the agent must request a reboot because a file on its
// host requires one. request contains the file's name and time, and is empty if
// there is no file. A file that still exists after its reboot is not a reason
// for a second reboot.
func Asks(s protocol.State, request string) bool {
	if request == "" || s.Needed != nil || s.Now != nil || s.InProgress != nil || s.Fault() != nil {
		return false
	}
	return s.Last == nil || s.Last.Result == protocol.CalledOff || s.Last.Request.Request != request
}
