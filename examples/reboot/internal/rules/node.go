package rules

import (
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

// away says why the node is not back after the reboot: its kubelet must report
// the boot that the agent saw, and be Ready. It is empty if the node is back.
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
