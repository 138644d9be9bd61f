package state

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// rivalVariable is the environment variable that a webhook adds to containers.
const rivalVariable = "RECONCILETEST_RIVAL"

// Mutate changes an object of a request as a mutating webhook does. It adds a
// label, and sets the fields where they have no value or the server's default.
// It adds a container to a new Pod, and an environment variable to its other
// containers.
func Mutate(fields []ForeignField, resource, verb string, object map[string]any) {
	o := &unstructured.Unstructured{Object: object}
	labels := maps.Clone(o.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[RivalKey] = "yes"
	o.SetLabels(labels)
	for _, f := range fields {
		f.Set(object)
	}
	spec, _ := object["spec"].(map[string]any)
	if resource != "pods" || verb != "create" || spec == nil {
		return
	}
	containers, _ := spec["containers"].([]any)
	for _, c := range containers {
		if c, ok := c.(map[string]any); ok {
			env, _ := c["env"].([]any)
			c["env"] = append(slices.Clone(env), map[string]any{"name": rivalVariable, "value": "yes"})
		}
	}
	spec["containers"] = append(slices.Clone(containers), map[string]any{"name": RivalName, "image": "rival"})
}

// unmutated returns an object without the additions of Mutate. If o does not
// have the label of Mutate, it returns o itself.
func unmutated(fields []ForeignField, resource string, o *unstructured.Unstructured) *unstructured.Unstructured {
	if o.GetLabels()[RivalKey] == "" {
		return o
	}
	o = o.DeepCopy()
	for _, f := range fields {
		f.Unset(o.Object)
	}
	spec, _ := o.Object["spec"].(map[string]any)
	if resource != "pods" || spec == nil {
		return o
	}
	spec["containers"] = removeNamed(spec["containers"], RivalName)
	containers, _ := spec["containers"].([]any)
	for _, c := range containers {
		if c, ok := c.(map[string]any); ok {
			if c["env"] = removeNamed(c["env"], rivalVariable); c["env"] == nil {
				delete(c, "env")
			}
		}
	}
	if status, ok := o.Object["status"].(map[string]any); ok && status["containerStatuses"] != nil {
		status["containerStatuses"] = removeNamed(status["containerStatuses"], RivalName)
	}
	return o
}

// removeNamed returns a list without the elements of the given name, or nil if
// no elements are left.
func removeNamed(list any, name string) any {
	items, _ := list.([]any)
	remaining := slices.DeleteFunc(slices.Clone(items), func(v any) bool {
		m, ok := v.(map[string]any)
		return ok && m["name"] == name
	})
	if len(remaining) == 0 {
		return nil
	}
	return remaining
}
