package reconcile

import (
	"encoding/json"
	"hash/fnv"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat/homeostat/internal/answer"
	"github.com/homeostat/homeostat/internal/diff"
)

// changes returns the paths of the fields that differ between two states of an
// object, sorted, and a digest of their new values. What the server counts up
// with every write is left out. Lists count as one field.
func changes(before, after metav1.Object) (paths []string, digest uint64) {
	before, after = whole(before, after), whole(after, before)
	if before == nil || after == nil {
		return nil, 0
	}
	p, err := diff.Make(before, after, diff.JSON)
	if err != nil || p.Data == nil {
		return nil, 0
	}
	var changed map[string]any
	if json.Unmarshal(p.Data, &changed) != nil {
		return nil, 0
	}
	delete(changed, "apiVersion")
	delete(changed, "kind")
	if metadata, ok := changed["metadata"].(map[string]any); ok {
		kept := map[string]any{}
		for _, name := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
			if value, ok := metadata[name]; ok {
				kept[name] = value
			}
		}
		changed["metadata"] = kept
	}
	paths = leaves("", changed, nil)
	slices.Sort(paths)
	encoded, err := json.Marshal(changed) // sorts its keys
	if err != nil {
		return nil, 0
	}
	hash := fnv.New64a()
	_, _ = hash.Write(encoded)
	return paths, hash.Sum64()
}

// whole returns the object that a transport saw, with the Go type of like; nil if
// the answer does not tell. Other objects are returned as they are.
func whole(object, like metav1.Object) metav1.Object {
	got, ok := object.(*answer.Object)
	if !ok {
		return object
	}
	into := metav1.Object(&unstructured.Unstructured{})
	if _, both := like.(*answer.Object); !both {
		into = reflect.New(reflect.TypeOf(like).Elem()).Interface().(metav1.Object)
	}
	if got.Into(into) != nil {
		return nil
	}
	return into
}

// leaves appends the path of each field that a merge patch sets or removes.
func leaves(path string, changed map[string]any, to []string) []string {
	for name, value := range changed {
		below := join(path, name)
		if deeper, ok := value.(map[string]any); ok && (len(deeper) > 0 || below == "metadata") {
			to = leaves(below, deeper, to)
			continue
		}
		to = append(to, below)
	}
	return to
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
