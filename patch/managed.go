package patch

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/informer"
)

// ownedBy returns a checksum of the fields that manager has applied to obj, in
// all subresources, with their values. The values are included because another
// replica may have applied different values under the same manager name. Such a
// write does not change the ownership. ownedBy returns false if the managed
// fields of obj do not say that manager has applied any fields, or cannot be
// read. For example, the cache may have dropped them.
func ownedBy(obj informer.Object, manager string) ([sha256.Size]byte, bool) {
	var zero [sha256.Size]byte
	h := sha256.New()
	var content map[string]any
	for _, e := range obj.GetManagedFields() {
		if e.Manager != manager || e.Operation != metav1.ManagedFieldsOperationApply || e.FieldsV1 == nil {
			continue
		}
		if content == nil {
			content = contentOf(obj)
		}
		var fields map[string]any
		if json.Unmarshal([]byte(e.FieldsV1.GetRawString()), &fields) != nil {
			return zero, false
		}
		fmt.Fprintf(h, "%q %q\n", e.APIVersion, e.Subresource)
		writeOwned(h, fields, content)
	}
	return [sha256.Size]byte(h.Sum(nil)), content != nil
}

// contentOf returns obj as a tree of JSON values. The tree has only those
// members of the metadata that can be applied. It returns nil if obj cannot be
// converted. The result shares memory with an unstructured obj; do not modify
// it.
func contentOf(obj informer.Object) map[string]any {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil
	}
	content = maps.Clone(content)
	meta, _ := content["metadata"].(map[string]any)
	applied := map[string]any{}
	for _, name := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
		applied[name] = meta[name]
	}
	content["metadata"] = applied
	return content
}

// writeOwned writes the values of fields to w. fields has the form of
// [metav1.FieldsV1]. If fields names a value but no part of the value,
// writeOwned writes the whole value.
func writeOwned(w io.Writer, fields map[string]any, value any) {
	for _, step := range slices.Sorted(maps.Keys(fields)) {
		if step == "." {
			continue
		}
		part := partOf(value, step)
		nested, _ := fields[step].(map[string]any)
		fmt.Fprintf(w, "%q {", step)
		if len(nested) == 0 {
			fmt.Fprint(w, textOf(part))
		}
		writeOwned(w, nested, part)
		fmt.Fprint(w, "}")
	}
}

// partOf returns the part of value to which one step of a [metav1.FieldsV1]
// leads. For example, "f:spec" leads to the member spec. It returns nil if
// value has no such part.
func partOf(value any, step string) any {
	kind, name, _ := strings.Cut(step, ":")
	object, _ := value.(map[string]any)
	list, _ := value.([]any)
	switch kind {
	case "f":
		return object[name]
	case "i":
		if i, err := strconv.Atoi(name); err == nil && 0 <= i && i < len(list) {
			return list[i]
		}
	case "k", "v":
		var want any
		if json.Unmarshal([]byte(name), &want) != nil {
			return nil
		}
		for _, element := range list {
			if isElement(element, want, kind == "k") {
				return element
			}
		}
	}
	return nil
}

// isElement reports whether want describes element, an element of a list. want
// contains the element's keys if keys is true, and otherwise the whole element.
func isElement(element, want any, keys bool) bool {
	if !keys {
		return textOf(element) == textOf(want)
	}
	members, _ := element.(map[string]any)
	wanted, _ := want.(map[string]any)
	for name, value := range wanted {
		if textOf(members[name]) != textOf(value) {
			return false
		}
	}
	return members != nil
}

func textOf(value any) string {
	text, _ := json.Marshal(value) // of JSON's own types
	return string(text)
}
