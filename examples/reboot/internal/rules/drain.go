package rules

import (
	"time"

	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

// Drained reports whether the drain is over after a pass: no Pod is left or,
// under the policy force, its time is over and each of them was asked to leave.
// Took is measured by one process. The controller ends a drain that takes too
// long.
func Drained(t protocol.Terms, left, notAsked int, took time.Duration) bool {
	if left == 0 {
		return true
	}
	return t.Policy == protocol.PolicyForce && notAsked == 0 && took >= t.DrainTimeout()
}
