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
// field "*" stands for the whole object, and metadata.name for a name that the
// program has generated. [*] stands for every element of a list. A nil Ignore
// ignores no field.
//
// Concurrency: only one goroutine at a time may use an Ignore.
type Ignore struct {
	entries []string
	used    []bool // whether each entry has matched a field of a compared object
}

// NewIgnore returns an Ignore with the given entries.
func NewIgnore(entries ...string) *Ignore {
	return &Ignore{entries: entries, used: make([]bool, len(entries))}
}

// Unused returns the entries that have not matched a field of the objects and
// writes that were compared. A matching field counts even if it did not differ.
func (g *Ignore) Unused() []string {
	var unused []string
	for i, entry := range g.entries {
		if !g.used[i] {
			unused = append(unused, entry)
		}
	}
	return unused
}

var index = regexp.MustCompile(`\[[^\]*]*\]`)

// contains reports whether a field of a resource's objects is ignored. It marks
// the entries that match as used.
func (g *Ignore) contains(resource, path string) bool {
	if g == nil {
		return false
	}
	found := false
	for i, entry := range g.entries {
		kind, field, named := strings.Cut(entry, " ")
		if !named {
			kind, field = resource, entry
		}
		anyIndex := strings.Contains(field, "[*]") && field == index.ReplaceAllString(path, "[*]")
		if kind == resource && (field == path || anyIndex) {
			g.used[i], found = true, true
		}
	}
	return found
}

// Covers reports whether a field of a resource's objects is ignored, by itself
// or as a part of an ignored field.
func (g *Ignore) Covers(resource string, path ...string) bool {
	used := slices.Clone(g.used) // a call of Covers must not mark entries as used
	defer copy(g.used, used)
	for n := range path {
		if g.contains(resource, strings.Join(path[:n+1], ".")) {
			return true
		}
	}
	return g.contains(resource, "*")
}

// Status reports whether the observed generation in the status of a resource is
// ignored.
func (g *Ignore) Status(resource string) bool {
	return slices.ContainsFunc([]string{"*", "status", "status.conditions", "status.observedGeneration"},
		func(path string) bool { return g.contains(resource, path) })
}

// Matters reports whether a write changes any field that is not ignored. If no
// field is ignored, it returns true without a comparison. old is nil for a
// creation, and fresh is nil for a deletion.
func (g *Ignore) Matters(resource string, old, fresh *unstructured.Unstructured) bool {
	switch {
	case g == nil || len(g.entries) == 0:
		return true
	case g.contains(resource, "*"):
		return false
	case old == nil || fresh == nil:
		return true
	}
	return g.differ(resource, "", old.Object, fresh.Object)
}

// bookkeeping lists the fields that the server itself changes when an object is
// written.
var bookkeeping = []string{"metadata.resourceVersion", "metadata.managedFields", "metadata.generation"}

func (g *Ignore) differ(resource, path string, a, b any) bool {
	if slices.Contains(bookkeeping, path) || g.contains(resource, path) {
		return false
	}
	x, aIsMap := a.(map[string]any)
	y, bIsMap := b.(map[string]any)
	if (aIsMap || a == nil) && (bIsMap || b == nil) && (aIsMap || bIsMap) { // one of them may be missing
		// compare all members, because the entries that are marked as used must
		// not depend on the order of a map
		differ := false
		for _, k := range slices.Concat(slices.Collect(maps.Keys(x)), slices.Collect(maps.Keys(y))) {
			differ = g.differ(resource, strings.TrimPrefix(path+"."+k, "."), x[k], y[k]) || differ
		}
		return differ
	}
	s, isList := a.([]any)
	t, ok := b.([]any)
	if !isList || !ok || len(s) != len(t) {
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
