package diff

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
)

// equalAny compares two values as they come out of a JSON decoder.
func (c *comparer) equalAny(a, b any) bool {
	switch x := a.(type) {
	case nil, string, bool:
		return a == b
	case int64:
		if y, ok := b.(int64); ok {
			return x == y
		}
	case float64:
		if y, ok := b.(float64); ok {
			return x == y
		}
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			return (x == nil) == (y == nil) && maps.EqualFunc(x, y, c.equalAny)
		}
	case []any:
		if y, ok := b.([]any); ok {
			return (x == nil) == (y == nil) && slices.EqualFunc(x, y, c.equalAny)
		}
	}
	return b != nil && c.sameJSON(a, b)
}

// sameJSON compares values of other types, e.g. the numbers 1 and 1.0.
func (c *comparer) sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	c.fail(errors.Join(errX, errY))
	return bytes.Equal(x, y)
}

// anyDiff writes the JSON merge patch from a to b, or nothing.
func (w *writer) anyDiff(a, b any) {
	if w.equalAny(a, b) {
		return
	}
	x, isX := a.(map[string]any)
	y, isY := b.(map[string]any)
	if isX && isY && x != nil && y != nil {
		w.nested('{', '}', func() { w.objectDiff(x, y) })
		return
	}
	if b == nil {
		w.null()
		return
	}
	data, err := json.Marshal(b)
	if err != nil {
		w.fail(err)
		return
	}
	was, err := json.Marshal(a)
	if isMaps := isX && isY; !isMaps && err == nil && was[0] == '{' && data[0] == '{' {
		w.anyDiff(w.decode(was), w.decode(data))
	} else { // of two maps, one is nil
		w.raw(data)
	}
}

// objectDiff writes the members that differ, in their order, without braces.
func (w *writer) objectDiff(a, b map[string]any) {
	names := make([]string, 0, 8)
	for k, v := range b {
		if was, ok := a[k]; !ok && v != nil || ok && !w.equalAny(was, v) {
			names = append(names, k)
		}
	}
	for k := range a {
		if _, ok := b[k]; !ok {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	for _, k := range names {
		w.pair("", k, func() {
			v, ok := b[k]
			if was, had := a[k]; ok && !had {
				w.marshal(v)
			} else if ok {
				w.anyDiff(was, v)
			} else {
				w.null()
			}
		})
	}
}
