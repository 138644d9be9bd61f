package rules

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

// Matters reports whether a change of a node can change a decision. For
// example, a kubelet's heartbeat cannot.
func Matters(oldNode, newNode *corev1.Node) bool {
	return oldNode.UID != newNode.UID ||
		!maps.Equal(oldNode.Labels, newNode.Labels) ||
		!maps.Equal(ownAnnotations(oldNode), ownAnnotations(newNode)) ||
		oldNode.Status.NodeInfo.BootID != newNode.Status.NodeInfo.BootID ||
		readiness(oldNode) != readiness(newNode)
}

// ownAnnotations returns the annotations of a node that belong to the operator.
func ownAnnotations(node *corev1.Node) map[string]string {
	annotations := map[string]string{}
	for key, value := range node.Annotations {
		if strings.HasPrefix(key, protocol.Prefix) {
			annotations[key] = value
		}
	}
	return annotations
}

func readiness(node *corev1.Node) (r struct {
	known      bool
	ready      corev1.ConditionStatus
	transition int64
},
) {
	if c := readyCondition(node); c != nil {
		r.known, r.ready, r.transition = true, c.Status, c.LastTransitionTime.UnixNano()
	}
	return r
}
