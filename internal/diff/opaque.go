package diff

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// isFlat reports whether the MarshalJSON of t is known to write neither objects
// nor lists.
func isFlat(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString](), reflect.TypeFor[metav1.Time](),
		reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[metav1.Duration]():
		return true
	default:
		return false
	}
}

// equalOpaque compares the JSON of two values. It does not encode them where
// equal memory proves that the JSON is equal.
func (c *comparer) equalOpaque(n *node, a, b place) bool {
	if n.typ == reflect.TypeFor[metav1.FieldsV1]() && (*metav1.FieldsV1)(a).Equal(*(*metav1.FieldsV1)(b)) {
		return true
	}
	return bytes.Equal(n.bytes(a), n.bytes(b)) || reflect.DeepEqual(n.pointer(a), n.pointer(b)) ||
		bytes.Equal(c.opaque(n, a), c.opaque(n, b))
}

// opaque returns the JSON of the value at p.
func (c *comparer) opaque(n *node, p place) []byte {
	data, err := json.Marshal(n.pointer(p))
	c.fail(err)
	return data
}

// opaqueDiff writes the difference of two values with custom JSON.
func (w *writer) opaqueDiff(n *node, a, b place) {
	x, y := w.opaque(n, a), w.opaque(n, b)
	if w.err != nil {
		return
	}
	if w.strict && n.raw(b) != nil && bytes.Contains(y, []byte("null")) && hasNull(w.decode(y), w.decode(x), true) {
		w.fail(errWholeList) // a merge would remove the member
		return
	}
	if isFlat(n.typ) || !structured(x) || !structured(y) {
		w.checkKeys(y)
		start := len(w.buf)
		w.raw(y)
		w.noList(start)
		return
	}
	if w.style == Strategic {
		w.fail(errUnmergeable)
		return
	}
	oldValue, newValue := w.decode(x), w.decode(y)
	if w.strict && (n.reshapes || n.respells && w.changesEntry(oldValue, newValue)) {
		w.fail(errWholeList) // a merge would replace a value of another shape, or add another key
	}
	w.anyDiff(oldValue, newValue)
}

// changesEntry reports whether an entry of object a has a different value in
// object b, or is missing there.
func (w *writer) changesEntry(a, b any) bool {
	old, _ := a.(map[string]any)
	edited, _ := b.(map[string]any)
	for key, value := range old {
		if newValue, ok := edited[key]; !ok || !w.equalAny(value, newValue) {
			return true
		}
	}
	return false
}

// structured reports whether data is an object or a list. data must be JSON.
func structured(data []byte) bool { return data[0] == '{' || data[0] == '[' }

func (c *comparer) decode(data []byte) any {
	var v any
	c.fail(decode(data, &v))
	return v
}

// decode is [json.Unmarshal], with two differences: it decodes numbers in an
// interface as [json.Number], and so keeps their text, and it ignores data
// after the first JSON value.
func decode(data []byte, target any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(target)
}

// equalAny reports whether two values from a JSON decoder are equal. Values
// that are not deeply equal are compared by their JSON. For example, the int64
// 1 equals the float64 1, but the json.Number 1 does not equal the json.Number
// 1.0.
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

// anyDiff writes the JSON merge patch from a to b. It writes no bytes if they
// are equal.
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
		w.nullForAny(a)
		return
	}
	oldJSON, errA := json.Marshal(a)
	newJSON, errB := json.Marshal(b)
	switch err := errors.Join(errA, errB); {
	case err != nil:
		w.fail(err)
	case oldJSON[0] == '{' && newJSON[0] == '{': // values of a Go type
		w.anyDiff(w.decode(oldJSON), w.decode(newJSON))
	default:
		w.raw(newJSON)
	}
}

// nullForAny is like nullFor, for a value from a JSON decoder.
func (w *writer) nullForAny(a any) {
	if _, ok := a.([]any); ok && w.strict {
		w.fail(errWholeList)
	}
	w.null()
}

// objectDiff writes the members that differ, sorted by name, without braces.
func (w *writer) objectDiff(a, b map[string]any) {
	names := slices.Collect(maps.Keys(b))
	for k := range a {
		if _, ok := b[k]; !ok {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	for _, k := range names {
		old, existed := a[k]
		value, exists := b[k]
		w.pair("", k, func() {
			switch {
			case !exists:
				w.nullForAny(old)
			case existed:
				w.anyDiff(old, value)
			case value != nil:
				w.marshal(value)
			}
		})
	}
}
