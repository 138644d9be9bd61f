package rules

import "strings"

// object is a decoded JSON object.
type object = map[string]any

// Meta returns the object's metadata. If the object has no metadata, it adds an
// empty map.
func Meta(obj map[string]any) map[string]any {
	m, ok := obj["metadata"].(object)
	if !ok {
		m = object{}
		obj["metadata"] = m
	}
	return m
}

// Text returns the value of a field if it is a string, and "" otherwise.
func Text(m object, field string) string {
	s, _ := m[field].(string)
	return s
}

// Number returns the value of a field if it is a number, and 0 otherwise.
func Number(m object, field string) int64 {
	switch n := m[field].(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return 0
}

// Object returns v if it is a JSON object, and nil otherwise.
func Object(v any) map[string]any {
	o, _ := v.(object)
	return o
}

// Find returns the value at a path such as "spec.selector", or nil if obj has
// no value there.
func Find(obj object, path string) any {
	var v any = obj
	for step := range strings.SplitSeq(path, ".") {
		node, _ := v.(object)
		v = node[step]
	}
	return v
}

// Empty reports whether a value is missing, or is an empty object, list or
// string.
func Empty(v any) bool {
	switch t := v.(type) {
	case nil:
		return true
	case object:
		return len(t) == 0
	case []any:
		return len(t) == 0
	case string:
		return t == ""
	}
	return false
}
