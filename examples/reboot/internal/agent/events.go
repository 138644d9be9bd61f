package agent

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func (a *Agent) note(node *corev1.Node, reason, action, format string, args ...any) {
	a.options.Events.Eventf(node, nil, corev1.EventTypeNormal, reason, action, format, args...)
}

func (a *Agent) warn(node *corev1.Node, reason, action string, err error) {
	a.options.Events.Eventf(node, nil, corev1.EventTypeWarning, reason, action, "%s", err.Error())
}

// discard is an event recorder that drops all Events.
type discard struct{}

func (discard) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}
