package rules

import (
	"errors"
	"time"

	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

// An AgentStep is an agent's next step.
type AgentStep string

// The steps of an agent.
const (
	Idle     AgentStep = "idle"
	Accept   AgentStep = "accept"   // reboot-now becomes in-progress
	Resume   AgentStep = "resume"   // drain, then reboot
	Complete AgentStep = "complete" // in-progress becomes last-reboot
	Restamp  AgentStep = "restamp"  // last-reboot learns of a boot without a request
)

// Agent returns the agent's next step on a node whose kernel has the given boot
// id. Errors: an annotation that must be read for it has a fault, or there is no
// boot id; the node is then left as it is.
func Agent(s protocol.State, bootID string, now time.Time) (AgentStep, error) {
	if err := s.Fault(protocol.Now, protocol.InProgress); err != nil {
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

// Asks reports whether the agent asks for the reboot that a file of its host requires:
// request names file and time, and is empty when there is no file. A file that still
// exists after its reboot does not ask again.
func Asks(s protocol.State, request string) bool {
	if request == "" || s.Needed != nil || s.Now != nil || s.InProgress != nil || s.Fault() != nil {
		return false
	}
	return s.Last == nil || s.Last.Result != protocol.Rebooted || s.Last.Request.Request != request
}
