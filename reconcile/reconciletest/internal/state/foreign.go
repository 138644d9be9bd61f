package state

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// RivalKey is the annotation, label and finalizer of another client. They are
// left out of every comparison.
const RivalKey = "reconciletest/rival"

// Foreign describes everything that another client has put on an object: the
// marks of RivalKey, and values of the spec set by the exploration.
func Foreign(o *unstructured.Unstructured) map[string]bool {
	all := map[string]bool{}
	if o.GetAnnotations()[RivalKey] != "" {
		all["an annotation"] = true
	}
	if o.GetLabels()[RivalKey] != "" {
		all["a label"] = true
	}
	if slices.Contains(o.GetFinalizers(), RivalKey) {
		all["a finalizer"] = true
	}
	if n, _, _ := unstructured.NestedInt64(o.Object, "spec", "revisionHistoryLimit"); n == 7 {
		all["spec.revisionHistoryLimit"] = true
	}
	if s, _, _ := unstructured.NestedString(o.Object, "spec", "sessionAffinity"); s == "ClientIP" {
		all["spec.sessionAffinity"] = true
	}
	return all
}

// Outdated says which part of an object's status is of an older generation:
// observedGeneration of the status, or of the conditions that say that it is
// ready; "" for none.
func Outdated(o *unstructured.Unstructured) string {
	now := o.GetGeneration()
	if seen, found, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); found && seen != now {
		return fmt.Sprintf("status.observedGeneration is %d, and the generation %d", seen, now)
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		m, _ := c.(map[string]any)
		kind, _ := m["type"].(string)
		seen, found, _ := unstructured.NestedInt64(m, "observedGeneration")
		if found && seen != now && slices.Contains([]string{"Ready", "Available", "Synced", "Reconciled"}, kind) {
			return fmt.Sprintf("its condition %s is of generation %d, and the generation is %d", kind, seen, now)
		}
	}
	return ""
}
