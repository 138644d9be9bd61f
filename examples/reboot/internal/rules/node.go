package rules

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

// Unavailable reports whether a reboot of the node was granted or is in
// progress, or the node does not have the condition Ready with the status True.
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

// absence returns why the node is not back after the reboot. It returns the
// empty string if the node is back: its kubelet reports the boot that the agent
// has seen, and the node is Ready.
func absence(node *corev1.Node, o *protocol.Outcome) string {
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
