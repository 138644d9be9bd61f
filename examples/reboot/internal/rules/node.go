package rules

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

// Unavailable reports whether the node is told to reboot, or is not known to be
// Ready. For example, a node without a condition Ready is unavailable.
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

// away returns why the node is not back after the reboot, or the empty string.
// It is back when its kubelet reports the boot that the agent has seen, and it
// is Ready.
func away(node *corev1.Node, o *protocol.Outcome) string {
	ready := readyCondition(node)
	switch {
	case ready == nil || ready.Status != corev1.ConditionTrue:
		return "not Ready yet after its reboot"
	case o.ToBootID != "" && node.Status.NodeInfo.BootID != o.ToBootID:
		return "its kubelet does not report the new boot yet"
	default:
		return ""
	}
}
