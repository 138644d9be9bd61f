package children

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Servers do not always name an immutable field as the object does. Kubernetes
// 1.36 has these names for fields that are called differently.
const (
	volumeSource     = "spec.persistentvolumesource" // any source of a PersistentVolume, such as spec.nfs
	attachedRequired = "spec.attachedRequired"       // the field spec.attachRequired of a CSIDriver
)

// meantFields returns the fields that the server means by names. For example,
// the server says volumeMode for spec.volumeMode of a PersistentVolume. A name
// for which no such field is found stays as it is.
func meantFields(original, edited map[string]any, names []string) []string {
	var fields []string
	for _, name := range names {
		has := func(path string) bool { return hasField(original, path) || hasField(edited, path) }
		switch below := "spec." + name; {
		case has(name):
			fields = append(fields, name)
		case name == volumeSource:
			fields = append(fields, changedSources(original, edited)...)
		case name == attachedRequired:
			fields = append(fields, "spec.attachRequired")
		case has(below):
			fields = append(fields, below)
		default:
			fields = append(fields, name)
		}
	}
	return fields
}

// hasField reports whether the object has the field at path. If path names an
// element of a list, such as spec.clusterIPs[0], hasField looks only for the
// list. It also returns true if a value before the end of path is not an
// object.
func hasField(object map[string]any, path string) bool {
	list, _, _ := strings.Cut(path, "[")
	_, found, err := unstructured.NestedFieldNoCopy(object, strings.Split(list, ".")...)
	return found || err != nil
}

// changedSources returns the sources of a PersistentVolume that differ, or the
// server's name for all of them if no source differs.
func changedSources(original, edited map[string]any) []string {
	var fields []string
	for source := range reflect.TypeFor[corev1.PersistentVolumeSource]().Fields() {
		member, _, _ := strings.Cut(source.Tag.Get("json"), ",")
		old, _, _ := unstructured.NestedFieldNoCopy(original, "spec", member)
		changed, _, _ := unstructured.NestedFieldNoCopy(edited, "spec", member)
		if !reflect.DeepEqual(old, changed) {
			fields = append(fields, "spec."+member)
		}
	}
	if fields == nil {
		return []string{volumeSource}
	}
	return fields
}
