package rules

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

// Matters reports whether a change of a node can change a decision. For
// example, a kubelet's heartbeat cannot.
func Matters(before, after *corev1.Node) bool {
	return before.UID != after.UID ||
		!maps.Equal(before.Labels, after.Labels) ||
		!maps.Equal(ownAnnotations(before), ownAnnotations(after)) ||
		before.Status.NodeInfo.BootID != after.Status.NodeInfo.BootID ||
		readiness(before) != readiness(after)
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
	known bool
	ready corev1.ConditionStatus
	since int64
},
) {
	if c := readyCondition(node); c != nil {
		r.known, r.ready, r.since = true, c.Status, c.LastTransitionTime.UnixNano()
	}
	return r
}
