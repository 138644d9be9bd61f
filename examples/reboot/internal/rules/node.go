package rules

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

// Unavailable reports whether the node is not known to be Ready, or is told to
// reboot. NotReady, Unknown and no condition are one.
func Unavailable(node *corev1.Node) bool {
	ready := readyCondition(node)
	return ready == nil || ready.Status != corev1.ConditionTrue || protocol.Claimed(node)
}

func readyCondition(node *corev1.Node) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c
		}
	}
	return nil
}

// verified reports whether the node is back after the reboot: its kubelet reports the
// boot that the agent saw, and has been Ready for minReady since. If only time is
// missing, wait is how long; why is the reason for a person.
func verified(
	node *corev1.Node, o *protocol.Outcome, minReady time.Duration, now time.Time,
) (wait time.Duration, why string) {
	ready := readyCondition(node)
	switch {
	case ready == nil || ready.Status != corev1.ConditionTrue:
		return 0, "not Ready yet after its reboot"
	case node.Status.NodeInfo.BootID != o.ToBootID:
		return 0, "its kubelet does not report the new boot yet"
	}
	since := ready.LastTransitionTime.Time
	if o.At.After(since) {
		since = o.At.Time
	}
	if left := since.Add(minReady).Sub(now); left > 0 {
		return left, "not Ready long enough after its reboot"
	}
	return 0, ""
}

// backoff returns how long the request of a node has to wait since the last attempt
// was called off; 0 when it need not. Another request need not.
func backoff(state protocol.State, retry time.Duration, now time.Time) time.Duration {
	last := state.Last
	if last == nil || last.Result != protocol.CalledOff || state.Needed == nil || *state.Needed != last.Request.Request {
		return 0
	}
	return max(0, last.At.Add(retry).Sub(now))
}
