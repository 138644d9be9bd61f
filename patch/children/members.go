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

// narrowed returns fields with more precise names. A server may refuse the
// change of a whole field, and name the members of it that may change. Such a
// field is replaced by the other members that w changes. For example, the spec
// of a StatefulSet is replaced by spec.volumeClaimTemplates, so that the new
// number of replicas is written.
func (c *call[T]) narrowed(w Child[T], base T, fields []string, refusal error) []string {
	mutable := mutableMembers(refusal)
	copied, ok := base.DeepCopyObject().(T)
	if len(mutable) == 0 || !ok {
		return fields
	}
	c.edit(w, copied)
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(base)
	if err != nil {
		return fields
	}
	after, err := runtime.DefaultUnstructuredConverter.ToUnstructured(copied)
	if err != nil {
		return fields
	}
	var all []string
	for _, field := range fields {
		changed := changedMembers(before, after, field, mutable[field])
		if len(mutable[field]) == 0 || len(changed) == 0 {
			changed = []string{field}
		}
		all = append(all, changed...)
	}
	return all
}

// changedMembers returns the members of a field that differ, sorted, without
// the mutable ones.
func changedMembers(before, after map[string]any, field string, mutable []string) []string {
	old, _, _ := unstructured.NestedMap(before, strings.Split(field, ".")...)
	edited, _, _ := unstructured.NestedMap(after, strings.Split(field, ".")...)
	names := map[string]any{}
	maps.Copy(names, old)
	maps.Copy(names, edited)
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !slices.Contains(mutable, name) && !reflect.DeepEqual(old[name], edited[name]) {
			changed = append(changed, field+"."+name)
		}
	}
	return changed
}

// quotedName matches a member in the text "updates to statefulset spec for
// fields other than 'replicas', 'template' are forbidden".
//
//nolint:gochecknoglobals // compiled once
var quotedName = regexp.MustCompile(`'(\w+)'`)

// mutableMembers returns, for each field, the members that may change although
// the server has refused the change of the field. Only the text names them.
func mutableMembers(refusal error) map[string][]string {
	mutable := map[string][]string{}
	var status apierrors.APIStatus
	if !errors.As(refusal, &status) || status.Status().Details == nil {
		return nil
	}
	for _, cause := range status.Status().Details.Causes {
		_, names, found := strings.Cut(cause.Message, "fields other than ")
		if !found {
			continue
		}
		for _, name := range quotedName.FindAllStringSubmatch(names, -1) {
			mutable[cause.Field] = append(mutable[cause.Field], name[1])
		}
	}
	return mutable
}
