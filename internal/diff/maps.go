package diff

import (
	"reflect"
	"slices"
)

// mapDiff writes the entries in which two maps differ, sorted by key. In the
// style JSON, it writes null for a map that has become nil, and the whole map
// for a map that was nil.
func (w *writer) mapDiff(n *node, a, b place) {
	if n.typ == reflect.TypeFor[map[string]string]() {
		x, y := *(*map[string]string)(a), *(*map[string]string)(b)
		if w.style == Strategic || x != nil && y != nil {
			w.stringsDiff(x, y)
			return
		}
	}
	va, vb := n.value(a), n.value(b)
	switch {
	case w.style == JSON && vb.IsNil():
		if w.strict {
			w.fail(errWholeList)
		}
		w.null()
	case w.style == JSON && va.IsNil():
		w.fresh(n, b)
	default:
		w.nested('{', '}', func() { w.entriesDiff(n, va, vb) })
	}
}

// stringsDiff writes the entries in which two maps differ, sorted by key. At
// least one entry must differ.
func (w *writer) stringsDiff(a, b map[string]string) {
	var space [8]string
	changed := space[:0]
	for k, v := range b {
		if old, ok := a[k]; !ok || old != v {
			changed = append(changed, k)
		}
	}
	for k := range a {
		if _, ok := b[k]; !ok {
			changed = append(changed, k)
		}
	}
	slices.Sort(changed)
	w.buf = append(w.buf, '{')
	for _, k := range changed {
		w.checkKey(k)
		w.key("", k)
		if v, ok := b[k]; ok {
			w.text(v)
		} else {
			w.null()
		}
	}
	w.buf = append(w.buf, '}')
}

func (w *writer) entriesDiff(n *node, a, b reflect.Value) {
	pa, pb := reflect.New(n.elem.typ), reflect.New(n.elem.typ)
	for _, name := range keysOf(a, b) {
		k := reflect.ValueOf(name).Convert(n.typ.Key())
		x, y := a.MapIndex(k), b.MapIndex(k)
		if x.IsValid() {
			pa.Elem().Set(x)
		}
		if y.IsValid() {
			pb.Elem().Set(y)
		}
		if w.strict && n.respells && x.IsValid() &&
			(!y.IsValid() || !w.equal(n.elem, pa.UnsafePointer(), pb.UnsafePointer())) {
			w.fail(errWholeList) // a merge would add another key
		}
		w.entry(n.elem, name, x.IsValid(), y.IsValid(), pa.UnsafePointer(), pb.UnsafePointer())
	}
}

// keysOf returns the keys of both maps, sorted and without duplicates.
func keysOf(a, b reflect.Value) []string {
	names := make([]string, 0, b.Len())
	for entries := b.MapRange(); entries.Next(); {
		names = append(names, entries.Key().String())
	}
	for entries := a.MapRange(); entries.Next(); {
		if !b.MapIndex(entries.Key()).IsValid() {
			names = append(names, entries.Key().String())
		}
	}
	slices.Sort(names)
	return names
}

// entry writes one key of a map if its value differs. hasA and hasB say whether
// the maps have the key; a is read only if hasA is set, and b only if hasB is
// set.
func (w *writer) entry(n *node, name string, hasA, hasB bool, a, b place) {
	if w.pair("", name, func() {
		switch {
		case !hasB:
			w.null()
		case n.emptyJSON() != "" && n.null(b): // null would remove the key
			if !hasA || !n.empty(a) {
				w.raw([]byte(n.emptyJSON()))
			}
		case !hasA:
			w.wholeUnlessNull(n, b)
		case w.equal(n, a, b):
		case w.style == Strategic && !n.flat():
			w.fail(errUnmergeable)
		default:
			w.valueDiff(n, a, b, false)
		}
	}) {
		w.checkKey(name)
	}
}

// emptyJSON returns the JSON of an empty value of type n. It is written for a
// nil value in a map. It returns "" if nil values of the type are written as
// null.
func (n *node) emptyJSON() string {
	switch n.kind {
	case kindBytes:
		return `""`
	case kindSlice:
		return `[]`
	case kindMap:
		return `{}`
	default:
		return ""
	}
}

// wholeMap writes a map. Where encoding/json would write null for a nil value
// it writes an empty value, because null would remove the key.
func (o *output) wholeMap(n *node, p place) {
	m := n.value(p)
	if n.elem.emptyJSON() == "" || m.IsNil() {
		o.marshalNew(m.Interface())
		return
	}
	filled := reflect.MakeMap(n.typ)
	for entries := m.MapRange(); entries.Next(); {
		v := entries.Value()
		if v.IsNil() && v.Kind() == reflect.Map {
			v = reflect.MakeMap(v.Type())
		} else if v.IsNil() {
			v = reflect.MakeSlice(v.Type(), 0, 0)
		}
		filled.SetMapIndex(entries.Key(), v)
	}
	o.marshalNew(filled.Interface())
}

// wholeUnlessNull writes a value that was missing before. It does not write
// null, because that would ask the server to remove the value.
func (o *output) wholeUnlessNull(n *node, p place) {
	start := len(o.buf)
	o.fresh(n, p)
	if string(o.buf[start:]) == "null" {
		o.buf = o.buf[:start]
	}
}
