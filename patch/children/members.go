package children

import (
	"errors"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// keptField is a field that keeps the value of the server, because the server
// has refused its change. Some of its members may be written nevertheless.
type keptField struct {
	path string
	// mutable has the paths of these members below the field, such as
	// "containers[*].image" of the field "spec".
	mutable []string
}

// narrowFields returns each of the fields as a keptField, with the members that
// may change although the server has refused the change of the whole field. It
// also returns the paths of the fields that may not change, for messages. For
// example, if w changes spec.replicas and spec.volumeClaimTemplates of a
// StatefulSet, the server refuses the change of spec. Then narrowFields returns
// spec, with replicas among its mutable members, and the path
// spec.volumeClaimTemplates.
func (c *call[T]) narrowFields(w Child[T], base T, fields []string, refusal error) (kept []keptField, paths []string) {
	edited, ok := base.DeepCopyObject().(T)
	if ok {
		c.edit(w, edited)
	}
	originalTree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(base)
	editedTree, err2 := runtime.DefaultUnstructuredConverter.ToUnstructured(edited)
	if ok && err == nil && err2 == nil {
		fields = meantFields(originalTree, editedTree, fields)
	}
	for _, path := range fields {
		field := keptField{path: path}
		if ok && err == nil && err2 == nil {
			field.mutable = mutableOf(refusal, path)
		}
		changed := changedMembers(originalTree, editedTree, field)
		if len(changed) == 0 { // the server refused the change of a mutable member
			field.mutable, changed = nil, []string{path}
		}
		kept, paths = append(kept, field), append(paths, changed...)
	}
	return kept, paths
}

// changedMembers returns the members of a field that differ, sorted, apart from
// the mutable ones. It returns nil for a field without mutable members.
func changedMembers(originalTree, editedTree map[string]any, field keptField) []string {
	if len(field.mutable) == 0 {
		return nil
	}
	old, _, _ := unstructured.NestedMap(originalTree, strings.Split(field.path, ".")...)
	edited, _, _ := unstructured.NestedMap(editedTree, strings.Split(field.path, ".")...)
	if old == nil {
		old = map[string]any{}
	}
	for _, member := range field.mutable {
		copyMember(old, edited, strings.Split(member, "."))
	}
	union := maps.Clone(old)
	maps.Copy(union, edited)
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(union)) {
		if !reflect.DeepEqual(old[name], edited[name]) {
			changed = append(changed, field.path+"."+name)
		}
	}
	return changed
}

// everyElement follows the name of a list in a path, and stands for each of its
// elements. For example, "containers[*].image" is the image of each container.
const everyElement = "[*]"

// copyMember sets the member of dst at path to the value that it has in src, or
// removes it if src does not have it. For a path through a list, it sets the
// member in each element. It skips lists of different lengths, and elements
// that do not have the same name at the same place.
func copyMember(dst, src map[string]any, path []string) {
	name, isList := strings.CutSuffix(path[0], everyElement)
	value, found := src[name]
	switch {
	case isList && len(path) > 1:
		old, _ := dst[name].([]any)
		edited, _ := value.([]any)
		if len(old) != len(edited) {
			return
		}
		for n := range old {
			x, okX := old[n].(map[string]any)
			y, okY := edited[n].(map[string]any)
			if okX && okY && reflect.DeepEqual(x["name"], y["name"]) {
				copyMember(x, y, path[1:])
			}
		}
	case len(path) > 1:
		inner, _ := value.(map[string]any)
		outer, ok := dst[name].(map[string]any)
		if !ok && inner != nil {
			outer = map[string]any{}
			dst[name] = outer
		}
		if outer != nil {
			copyMember(outer, inner, path[1:])
		}
	case found:
		dst[name] = runtime.DeepCopyJSONValue(value)
	default:
		delete(dst, name)
	}
}

// exceptions matches the members that may change in the first line of a
// refusal. The difference between the objects may follow in the next lines.
//
// quotedName matches one of them in a text that quotes them, and bareName in a
// text that does not. For example, the refusals of a StatefulSet, a Pod and a
// PersistentVolumeClaim say
//
//	fields other than 'replicas', 'template' and 'minReadySeconds' are forbidden
//	fields other than `spec.containers[*].image`,`spec.tolerations` (only additions …)
//	immutable after creation except resources.requests and volumeAttributesClassName for bound claims
//
//nolint:gochecknoglobals // compiled once
var (
	exceptions = regexp.MustCompile(`(?:fields other than|immutable after creation except) (.+)`)
	quotedName = regexp.MustCompile("['`]([\\w.*\\[\\]]+)['`]")
	bareName   = regexp.MustCompile(`[\w.*\[\]]+`)
)

// mutableOf returns the members of a field that may change although the server
// has refused the change of the field. Only the text of the refusal names them.
func mutableOf(refusal error, field string) []string {
	var status apierrors.APIStatus
	if !errors.As(refusal, &status) || status.Status().Details == nil {
		return nil
	}
	for _, cause := range status.Status().Details.Causes {
		if members := mutableMembers(field, cause.Message); cause.Field == field && len(members) > 0 {
			return members
		}
	}
	return nil
}

// mutableMembers returns the paths, below a field, of the members that may
// change according to the text of a refusal.
func mutableMembers(field, text string) []string {
	line, _, _ := strings.Cut(text, "\n")
	found := exceptions.FindStringSubmatch(line)
	if found == nil {
		return nil
	}
	var members []string
	for _, name := range quotedName.FindAllStringSubmatch(found[1], -1) {
		members = append(members, strings.TrimPrefix(name[1], field+"."))
	}
	if len(members) > 0 {
		return members
	}
	bare, _, _ := strings.Cut(found[1], " for ")
	for _, name := range bareName.FindAllString(bare, -1) {
		if name != "and" && name != "or" {
			members = append(members, strings.TrimPrefix(name, field+"."))
		}
	}
	return members
}
