package rules

import (
	"time"

	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

// Drained reports whether the drain is over after a pass. It is over when no
// Pod is left. With the policy force it is also over when its time has passed
// and the eviction of each Pod has been requested. took is how long the drain
// has lasted in the current run of the agent. With other policies, the
// controller handles a drain that takes too long.
func Drained(t protocol.Terms, left, notAsked int, took time.Duration) bool {
	if left == 0 {
		return true
	}
	return t.Policy == protocol.PolicyForce && notAsked == 0 && took >= t.DrainTimeout()
}
