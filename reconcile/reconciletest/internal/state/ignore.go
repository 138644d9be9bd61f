package state

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Ignore lists what may differ, each as "[resource ]field". The field "*" is everything, metadata.name the name that
// the program made up; [*] stands for every element of a list.
type Ignore []string

var index = regexp.MustCompile(`\[[^\]*]*\]`)

// has reports whether a field of a resource's objects is ignored.
func (g Ignore) has(resource, path string) bool {
	for _, entry := range g {
		of, field, found := strings.Cut(entry, " ")
		if !found {
			of, field = resource, entry
		}
		every := strings.Contains(field, "[*]") && field == index.ReplaceAllString(path, "[*]")
		if of == resource && (field == path || every) {
			return true
		}
	}
	return false
}

// Status reports whether it does not matter of which generation the status of a resource is.
func (g Ignore) Status(resource string) bool {
	return slices.ContainsFunc([]string{"*", "status", "status.conditions", "status.observedGeneration"},
		func(path string) bool { return g.has(resource, path) })
}

// Matters reports whether a write changes anything that is not ignored. Either object may be nil.
func (g Ignore) Matters(resource string, old, fresh *unstructured.Unstructured) bool {
	switch {
	case len(g) == 0:
		return true
	case g.has(resource, "*"):
		return false
	case old == nil || fresh == nil:
		return true
	}
	return g.differ(resource, "", old.Object, fresh.Object)
}

// bookkeeping is what the server changes with each write.
var bookkeeping = []string{"metadata.resourceVersion", "metadata.managedFields", "metadata.generation"}

func (g Ignore) differ(resource, path string, a, b any) bool {
	if slices.Contains(bookkeeping, path) || g.has(resource, path) {
		return false
	}
	x, isMap := a.(map[string]any)
	y, too := b.(map[string]any)
	if (isMap || a == nil) && (too || b == nil) && (isMap || too) { // one of them may be missing
		return slices.ContainsFunc(slices.Concat(slices.Collect(maps.Keys(x)), slices.Collect(maps.Keys(y))),
			func(k string) bool { return g.differ(resource, strings.TrimPrefix(path+"."+k, "."), x[k], y[k]) })
	}
	s, isList := a.([]any)
	t, both := b.([]any)
	if !isList || !both || len(s) != len(t) {
		return !reflect.DeepEqual(a, b)
	}
	names := elements(path, s)
	if !slices.Equal(names, elements(path, t)) {
		return true
	}
	for i := range s {
		if g.differ(resource, path+names[i], s[i], t[i]) {
			return true
		}
	}
	return false
}
