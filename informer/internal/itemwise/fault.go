package itemwise

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// deepestFault is the number of levels that faultIn descends. If the wrong
// value is nested more deeply, faultIn returns the value at the deepest of
// these levels that contains it.
const deepestFault = 24

// fault is a JSON value that does not fit its Go type.
type fault struct {
	typ  reflect.Type
	raw  json.RawMessage
	path string // such as spec.rules[1].port
}

// Error names the field, but not its value, because that may be a secret. For
// example, it returns "spec.every: this string cannot be decoded as
// v1.Duration".
func (f *fault) Error() string {
	shape := map[byte]string{'{': "object", '[': "list", '"': "string", 't': "boolean", 'f': "boolean", 'n': "null"}
	found := "number"
	if len(f.raw) > 0 && shape[f.raw[0]] != "" {
		found = shape[f.raw[0]]
	}
	text := fmt.Sprintf("this %s cannot be decoded as %s", found, f.typ)
	if f.path == "" {
		return text
	}
	return f.path + ": " + text
}

// faultIn returns the first value in raw that does not fit its type in t, and
// nil if all values fit. It returns the innermost value that does not fit, but
// does not look into a value whose type has a method UnmarshalJSON. For
// example, if the port of a rule does not fit, it returns that port and not the
// rule or the whole spec.
func faultIn(t reflect.Type, raw json.RawMessage, path string) *fault {
	if unmarshal(raw, reflect.New(t).Interface()) == nil {
		return nil
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	whole := &fault{t, raw, path}
	if strings.Count(path, ".") > deepestFault ||
		path != "" && reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return whole
	}
	return cmp.Or(faultInside(t, raw, path), whole)
}

// faultInside is like faultIn, for the members of a struct or a map and the
// elements of a list.
func faultInside(t reflect.Type, raw json.RawMessage, path string) *fault {
	var members map[string]json.RawMessage
	var elements []json.RawMessage
	switch t.Kind() {
	case reflect.Struct:
		if unmarshal(raw, &members) == nil {
			return faultInFields(t, raw, members, path)
		}
	case reflect.Map:
		_ = unmarshal(raw, &members)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if f := faultIn(t.Elem(), members[name], fmt.Sprintf("%s[%s]", path, name)); f != nil {
				return f
			}
		}
	case reflect.Slice, reflect.Array:
		_ = unmarshal(raw, &elements)
		for n, element := range elements {
			if f := faultIn(t.Elem(), element, fmt.Sprintf("%s[%d]", path, n)); f != nil {
				return f
			}
		}
	}
	return nil
}

// faultInFields is like faultIn, for the members of a struct.
func faultInFields(t reflect.Type, raw json.RawMessage, members map[string]json.RawMessage, path string) *fault {
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		var f *fault
		if member, ok := members[cmp.Or(name, field.Name)]; field.Anonymous && name == "" {
			f = faultIn(field.Type, raw, path)
		} else if ok && name != "-" && field.IsExported() {
			f = faultIn(field.Type, member, strings.TrimPrefix(path+"."+cmp.Or(name, field.Name), "."))
		}
		if f != nil {
			return f
		}
	}
	return nil
}
