package diff

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
)

// equalAny compares two values as they come out of a JSON decoder. Others are compared by their JSON, and so are
// numbers such as 1 and 1.0.
func (c *comparer) equalAny(a, b any) bool {
	if a == nil || b == nil {
		return a == b
	}
	if reflect.DeepEqual(a, b) {
		return true
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	c.fail(errors.Join(errX, errY))
	return bytes.Equal(x, y)
}

// anyDiff writes the JSON merge patch from a to b, or nothing.
func (w *writer) anyDiff(a, b any) {
	x, _ := a.(map[string]any)
	y, _ := b.(map[string]any)
	switch {
	case x != nil && y != nil:
		w.nested('{', '}', func() { w.objectDiff(x, y) })
		return
	case w.equalAny(a, b):
		return
	case b == nil:
		w.null()
		return
	}
	was, errA := json.Marshal(a)
	is, errB := json.Marshal(b)
	switch err := errors.Join(errA, errB); {
	case err != nil:
		w.fail(err)
	case was[0] == '{' && is[0] == '{': // of a Go type
		w.anyDiff(w.decode(was), w.decode(is))
	default:
		w.raw(is)
	}
}

// objectDiff writes the members that differ, in their order, without braces.
func (w *writer) objectDiff(a, b map[string]any) {
	names := slices.Collect(maps.Keys(b))
	for k := range a {
		if _, ok := b[k]; !ok {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	for _, k := range names {
		was, had := a[k]
		is, has := b[k]
		w.pair("", k, func() {
			switch {
			case !has:
				w.null()
			case had:
				w.anyDiff(was, is)
			case is != nil:
				w.marshal(is)
			}
		})
	}
}
