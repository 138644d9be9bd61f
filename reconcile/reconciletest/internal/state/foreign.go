package state

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// RivalKey is the key of the annotation, label and finalizer that the
// exploration adds as another client. A [State] leaves out the annotation and
// the label. The exploration removes the finalizer again.
const RivalKey = "reconciletest/rival"

// RivalName is the name of the container that a mutating webhook adds, and the
// value of foreign fields that may have any text.
const RivalName = "reconciletest-rival"

// Foreign returns the parts of an object that the exploration adds as another
// client: the annotation, the label and the finalizer [RivalKey], and the
// values of the given fields. The result is a set. Each key describes a part
// that the object has, for example "a label", and all values are true.
func Foreign(o *unstructured.Unstructured, fields []ForeignField) map[string]bool {
	marks := map[string]bool{}
	if o.GetAnnotations()[RivalKey] != "" {
		marks["an annotation"] = true
	}
	if o.GetLabels()[RivalKey] != "" {
		marks["a label"] = true
	}
	if slices.Contains(o.GetFinalizers(), RivalKey) {
		marks["a finalizer"] = true
	}
	for _, f := range fields {
		if slices.Contains(f.Values(o.Object), f.Value) {
			marks[f.String()] = true
		}
	}
	return marks
}

// Outdated describes the first part of an object's status that is of a
// different generation than the object, according to the observedGeneration of
// the status or of a condition such as Ready. It returns "" if it finds no such
// part.
func Outdated(o *unstructured.Unstructured) string {
	generation := o.GetGeneration()
	if seen, found, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); found && seen != generation {
		return fmt.Sprintf("status.observedGeneration is %d, and the generation %d", seen, generation)
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		m, _ := c.(map[string]any)
		kind, _ := m["type"].(string)
		seen, found, _ := unstructured.NestedInt64(m, "observedGeneration")
		if found && seen != generation && slices.Contains([]string{"Ready", "Available", "Synced", "Reconciled"}, kind) {
			return fmt.Sprintf("its condition %s is of generation %d, and the generation is %d", kind, seen, generation)
		}
	}
	return ""
}
