package patch

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/diff"
)

const (
	maxLines = 64
	maxValue = 96
)

// Diff returns the difference between two objects of one kind for people: one
// line for each member that differs, with the value before and after, such as
// "spec.replicas: 1 → 3". It returns "" if the objects are equal, and "created"
// or "deleted" if one of them is nil. If the objects cannot be compared, it
// returns the reason.
//
// Values of Secrets, and the copy of an object that kubectl apply stores in an
// annotation, are replaced by their size. Long values and long results are
// truncated. resourceVersion, generation and managedFields are left out. Diff
// is meant for logs: it costs much more than the comparison of [Merge].
func Diff(oldObject, newObject informer.Object) string {
	switch {
	case bound.IsNil(oldObject) && bound.IsNil(newObject):
		return ""
	case bound.IsNil(oldObject):
		return "created"
	case bound.IsNil(newObject):
		return "deleted"
	}
	p, err := diff.Compare(oldObject, newObject)
	if err != nil {
		return "cannot be compared: " + err.Error()
	}
	var changed map[string]any
	if p.Data == nil || json.Unmarshal(p.Data, &changed) != nil {
		return ""
	}
	d := describer{secret: kindOf(newObject) == "Secret"}
	d.walk(nil, changed, tree(oldObject), tree(newObject))
	if extra := len(d.lines) - maxLines; extra > 0 {
		d.lines = append(d.lines[:maxLines], fmt.Sprintf("and %d more", extra))
	}
	return strings.Join(d.lines, "\n")
}

func tree(o informer.Object) map[string]any {
	var decoded map[string]any
	if data, err := json.Marshal(o); err != nil || json.Unmarshal(data, &decoded) != nil {
		return nil
	}
	return decoded
}

// describer collects the lines of a Diff.
type describer struct {
	secret bool
	lines  []string
}

// walk adds a line for each leaf of changed, the merge patch from oldTree to
// newTree. It skips fields that writes change by themselves; see isNoise.
func (d *describer) walk(path []string, changed, oldTree, newTree map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		full := append(slices.Clip(path), name)
		if isNoise(full) {
			continue
		}
		oldValue, newValue := oldTree[name], newTree[name]
		deeper, ok := changed[name].(map[string]any)
		x, okX := oldValue.(map[string]any)
		y, okY := newValue.(map[string]any)
		if ok && (okX || okY) && len(deeper) > 0 {
			d.walk(full, deeper, x, y)
			continue
		}
		d.lines = append(d.lines, fmt.Sprintf("%s: %s → %s",
			strings.Join(full, "."), d.show(full, oldValue), d.show(full, newValue)))
	}
}

// isNoise reports whether path is a field that the server changes when an
// object is written.
func isNoise(path []string) bool {
	return len(path) == 2 && path[0] == "metadata" &&
		slices.Contains([]string{"resourceVersion", "generation", "managedFields"}, path[1])
}

func (d *describer) show(path []string, v any) string {
	if v == nil {
		return "none"
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	if d.secret && isSecret(path) || path[len(path)-1] == corev1.LastAppliedConfigAnnotation {
		return fmt.Sprintf("(%d bytes)", len(data))
	}
	if text := []rune(string(data)); len(text) > maxValue {
		return string(text[:maxValue]) + "…"
	}
	return string(data)
}

// isSecret reports whether a Secret has secret values at path. Annotations are
// included, because kubectl apply stores a copy of the object in one.
func isSecret(path []string) bool {
	return path[0] == "data" || path[0] == "stringData" || len(path) > 1 && path[1] == "annotations"
}
