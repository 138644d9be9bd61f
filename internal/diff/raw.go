package diff

import (
	"bytes"
	"reflect"
)

// A raw value is JSON that its Go type stores as it was written, such as a
// runtime.RawExtension or a json.RawMessage. A null in it is a value, for
// example one that removes a default of a Helm chart. In a merge patch a null
// removes the member, so such a null is stored by an operation.

// rawBytes finds the field of t that contains JSON as it was written: t itself
// if it is a list of bytes, or its field Raw. It returns the field's offset.
func rawBytes(t reflect.Type, k kind) (offset uintptr, ok bool) {
	switch bytesType := reflect.TypeFor[[]byte](); {
	case k != kindOpaque:
		return 0, false
	case t.Kind() == reflect.Slice:
		return 0, t.ConvertibleTo(bytesType)
	case t.Kind() == reflect.Struct:
		f, ok := t.FieldByName("Raw")
		return f.Offset, ok && len(f.Index) == 1 && f.Type == bytesType
	}
	return 0, false
}

// storesNull reports whether a raw value inside the value at p contains a null.
func storesNull(n *node, p place) bool {
	switch {
	case n.kind == kindOpaque:
		var value any
		data := n.raw(p)
		return bytes.Contains(data, []byte("null")) && decode(data, &value) == nil && hasNull(value, nil, false)
	case n.null(p):
		return false
	}
	switch n.kind {
	case kindPointer:
		return storesNull(n.elem, *(*place)(p))
	case kindStruct:
		for i := range n.fields {
			if f := &n.fields[i]; storesNull(f.node, f.locate(p)) {
				return true
			}
		}
	case kindSlice:
		s := (*slice)(p)
		for i := range s.len {
			if storesNull(n.elem, n.index(s, i)) {
				return true
			}
		}
	case kindMap:
		for entries := n.value(p).MapRange(); entries.Next(); {
			v := reflect.New(n.elem.typ)
			v.Elem().Set(entries.Value())
			if storesNull(n.elem, v.UnsafePointer()) {
				return true
			}
		}
	}
	return false
}

// hasNull reports whether b, a value from a JSON decoder, has a null in an
// object at a place where a does not have a null. existed says that a exists.
// hasNull does not compare the elements of lists: it returns true for every
// null in an object that is an element, even if a has the same list.
func hasNull(b, a any, existed bool) bool {
	switch b := b.(type) {
	case nil:
		return !existed || a != nil
	case map[string]any:
		old, _ := a.(map[string]any)
		for name, value := range b {
			oldValue, ok := old[name]
			if hasNull(value, oldValue, ok) {
				return true
			}
		}
	case []any:
		for _, e := range b {
			if _, ok := e.(map[string]any); ok && hasNull(e, nil, false) {
				return true
			}
		}
	}
	return false
}

// storeNulls turns each null in t into a flat value, so that operations store
// it like any other value.
func (t *tree) storeNulls() {
	if t.shape == shapeNull {
		*t = tree{shape: shapeFlat, text: []byte("null")}
	}
	for _, m := range t.members {
		m.storeNulls()
	}
	for _, e := range t.elements {
		e.storeNulls()
	}
}
