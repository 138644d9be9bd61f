package rules

import (
	"fmt"
	"time"

	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

// A DrainStep is an agent's step after a pass over its Pods.
type DrainStep string

// The steps of a drain.
const (
	DrainOn   DrainStep = "drain on"    // another pass, later
	DrainOver DrainStep = "drained"     // then the machine may go down
	CallOff   DrainStep = "call it off" // in-progress becomes needed
)

// Drain returns the step after a pass that has left that many Pods, and why for a
// person. A reboot does not begin after its maintenance window, whatever the policy.
func Drain(p protocol.Progress, left int, now time.Time) (step DrainStep, why string) {
	timeout := p.DrainTimeout()
	switch {
	case p.Expired(now):
		return CallOff, "the maintenance window has closed before the node was drained"
	case left == 0:
		return DrainOver, "no Pod is left"
	case p.Policy == protocol.PolicyWait, now.Before(p.AcceptedAt.Add(timeout)):
		return DrainOn, "Pods are left"
	case p.Policy == protocol.PolicyForce:
		return DrainOver, fmt.Sprintf("the drain has taken longer than %v, and the policy is force", timeout)
	default:
		return CallOff, fmt.Sprintf("the drain has taken longer than %v", timeout)
	}
}
