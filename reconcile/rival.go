package reconcile

import (
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rivalOf returns the field manager, other than manager, that was the last one
// to write any of these fields, or "" if no such manager is known. For example,
// the controller that writes the status of a Deployment is not a rival of a
// program that sets its replicas.
func rivalOf(object metav1.Object, manager string, paths []string) string {
	if object == nil {
		return ""
	}
	var newest metav1.ManagedFieldsEntry
	for _, entry := range object.GetManagedFields() {
		if entry.Manager != manager && wrote(entry, paths) && (newest.Time == nil || !entry.Time.Before(newest.Time)) {
			newest = entry
		}
	}
	return newest.Manager
}

// wrote reports whether the manager of entry has written any of these fields.
// It returns true for an entry without fields, because its manager may have
// written all of them.
func wrote(entry metav1.ManagedFieldsEntry, paths []string) bool {
	var fields map[string]any
	if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
		return true
	}
	return slices.ContainsFunc(paths, func(path string) bool {
		if path == wholeObject || path == wholeBody {
			return entry.Subresource == ""
		}
		return path == entry.Subresource || contains(fields, path)
	})
}

// contains reports whether fields, a set in the format of FieldsV1, contains
// the field at path, a part of that field, or a field that contains it and is
// owned as a whole.
func contains(fields map[string]any, path string) bool {
	for key, value := range fields {
		name, ok := strings.CutPrefix(key, "f:")
		if !ok || !isWithin(path, name) {
			continue
		}
		nested, _ := value.(map[string]any)
		rest := strings.TrimPrefix(path[len(name):], ".")
		if rest == "" || len(nested) == 0 || contains(nested, rest) {
			return true
		}
	}
	return false
}
