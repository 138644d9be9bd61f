package reconcile

import (
	"encoding/json"
	"hash/fnv"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// changes returns the paths of the fields that differ between two states of an
// object, sorted, and a digest of their new values. What the server counts up
// with every write is left out.
func changes(before, after metav1.Object) (paths []string, digest uint64) {
	a, errA := content(before)
	b, errB := content(after)
	if errA != nil || errB != nil {
		return nil, 0
	}
	values := map[string]any{}
	compare("", a, b, values)
	for path := range values {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	encoded, err := json.Marshal(values) // sorts its keys
	if err != nil {
		return nil, 0
	}
	hash := fnv.New64a()
	_, _ = hash.Write(encoded)
	return paths, hash.Sum64()
}

func content(object metav1.Object) (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	delete(fields, "apiVersion")
	delete(fields, "kind")
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		kept := map[string]any{}
		for _, name := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
			if value, ok := metadata[name]; ok {
				kept[name] = value
			}
		}
		fields["metadata"] = kept
	}
	return fields, nil
}

// compare puts the path of each leaf that differs, with its new value, into
// values. Lists are leaves.
func compare(path string, before, after any, values map[string]any) {
	a, okA := before.(map[string]any)
	b, okB := after.(map[string]any)
	if okA && okB {
		for name := range a {
			compare(join(path, name), a[name], b[name], values)
		}
		for name := range b {
			if _, ok := a[name]; !ok {
				compare(join(path, name), nil, b[name], values)
			}
		}
		return
	}
	if !reflect.DeepEqual(before, after) {
		values[path] = after
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
