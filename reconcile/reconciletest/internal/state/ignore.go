package state

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Ignore lists the fields that may differ, each as "[resource ]field". The
// field "*" is everything, metadata.name the name that the program made up; [*]
// stands for every element of a list. nil ignores nothing.
//
// Concurrency: use by one goroutine at a time.
type Ignore struct {
	entries []string
	used    []bool // by entry: something was ignored by it
}

// NewIgnore ignores the entries.
func NewIgnore(entries ...string) *Ignore {
	return &Ignore{entries: entries, used: make([]bool, len(entries))}
}

// Unused are the entries by which nothing was ignored.
func (g *Ignore) Unused() []string {
	var all []string
	for i, entry := range g.entries {
		if !g.used[i] {
			all = append(all, entry)
		}
	}
	return all
}

var index = regexp.MustCompile(`\[[^\]*]*\]`)

// has reports whether a field of a resource's objects is ignored.
func (g *Ignore) has(resource, path string) bool {
	if g == nil {
		return false
	}
	found := false
	for i, entry := range g.entries {
		of, field, named := strings.Cut(entry, " ")
		if !named {
			of, field = resource, entry
		}
		every := strings.Contains(field, "[*]") && field == index.ReplaceAllString(path, "[*]")
		if of == resource && (field == path || every) {
			g.used[i], found = true, true
		}
	}
	return found
}

// Covers reports whether a field of a resource's objects is ignored, by itself
// or as part of an ignored one.
func (g *Ignore) Covers(resource string, path ...string) bool {
	used := slices.Clone(g.used) // to ask is not to need
	defer copy(g.used, used)
	for n := range path {
		if g.has(resource, strings.Join(path[:n+1], ".")) {
			return true
		}
	}
	return g.has(resource, "*")
}

// Status reports whether the observed generation in the status of a resource is
// ignored.
func (g *Ignore) Status(resource string) bool {
	return slices.ContainsFunc([]string{"*", "status", "status.conditions", "status.observedGeneration"},
		func(path string) bool { return g.has(resource, path) })
}

// Matters reports whether a write changes anything that is not ignored. Either
// object may be nil.
func (g *Ignore) Matters(resource string, old, fresh *unstructured.Unstructured) bool {
	switch {
	case g == nil || len(g.entries) == 0:
		return true
	case g.has(resource, "*"):
		return false
	case old == nil || fresh == nil:
		return true
	}
	return g.differ(resource, "", old.Object, fresh.Object)
}

// bookkeeping are the fields that the server changes with each write.
var bookkeeping = []string{"metadata.resourceVersion", "metadata.managedFields", "metadata.generation"}

func (g *Ignore) differ(resource, path string, a, b any) bool {
	if slices.Contains(bookkeeping, path) || g.has(resource, path) {
		return false
	}
	x, isMap := a.(map[string]any)
	y, too := b.(map[string]any)
	if (isMap || a == nil) && (too || b == nil) && (isMap || too) { // one of them may be missing
		differ := false // all of them are looked at: which entries are used must not depend on the order of a map
		for _, k := range slices.Concat(slices.Collect(maps.Keys(x)), slices.Collect(maps.Keys(y))) {
			differ = g.differ(resource, strings.TrimPrefix(path+"."+k, "."), x[k], y[k]) || differ
		}
		return differ
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
