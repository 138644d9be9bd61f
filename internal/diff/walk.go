package diff

import (
	"bytes"
	"reflect"
	"slices"
)

const (
	retainKeys    = "$retainKeys"
	setOrder      = "$setElementOrder/"
	deleteScalars = "$deleteFromPrimitiveList/"
)

// writer walks two objects at once and writes their difference.
type writer struct{ output }

// structDiff writes the members that differ, without braces. If retain is true
// and b lacks a member of a, it also names the members that b has; see
// writeRetained.
func (w *writer) structDiff(n *node, a, b place, retain bool) {
	start := len(w.buf)
	for i := range n.fields {
		f := &n.fields[i]
		w.member(f, f.locate(a), f.locate(b), retain)
	}
	if retain && len(w.buf) > start && n.losesMember(a, b) {
		w.writeRetained(n, b)
	}
}

// losesMember reports whether b lacks a member that a has.
func (n *node) losesMember(a, b place) bool {
	return slices.ContainsFunc(n.fields, func(f field) bool { return f.isSet(a) && !f.isSet(b) })
}

// isSet reports whether the struct at p has a value for the member.
func (f *field) isSet(p place) bool {
	value := f.locate(p)
	return !f.omitted(value) && !f.node.null(value)
}

// writeRetained names the members that b has, if any. The server then clears
// all other members, including members that the Go type does not know.
// Therefore it is called only if the edit has removed a member, for example to
// replace one member of a union with another.
func (w *writer) writeRetained(n *node, b place) {
	var names []string
	for i := range n.fields {
		f := &n.fields[i]
		if f.isSet(b) {
			names = append(names, f.name)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	w.key("", retainKeys)
	w.marshal(names)
}

// member writes one member of an object if it differs. Either side may be
// omitted from the JSON. If retained is set, the patch lists the members that
// remain, and must not contain a value for any other member.
func (w *writer) member(f *field, a, b place, retained bool) {
	if w.equalFields(f, a, b) {
		return
	}
	noA, noB := f.omitted(a), f.omitted(b)
	switch {
	case noB:
		w.writeRemoval(f, a, b, retained)
	case noA && w.style == Strategic && f.merge && f.node.kind == kindSlice:
		w.writeChange(f, a, b)
	case noA:
		w.pair("", f.name, func() { w.wholeUnlessNull(f.node, b) })
	default:
		w.writeChange(f, a, b)
	}
}

// writeRemoval writes a member that the edited object omits. If the patch is
// strict, it removes from a struct only the members that the Go type has.
func (w *writer) writeRemoval(f *field, a, b place, retained bool) {
	switch {
	case w.style == JSON && f.byKey:
		w.key("", f.name)
		w.stringsDiff(*(*map[string]string)(a), nil)
	case !retained && w.emptied(f):
		w.writeChange(f, a, b)
	case !retained && w.strict && f.node.kind == kindStruct:
		w.pair("", f.name, func() { w.nested('{', '}', func() { w.writeRemovals(f.node, a, b) }) })
	default:
		if w.strict && f.node.kind == kindMap && w.style == JSON {
			w.fail(errWholeList)
		}
		w.key("", f.name)
		w.nullFor(f.node, a)
	}
}

// writeRemovals writes the removal of all members that the struct at a has.
func (w *writer) writeRemovals(n *node, a, b place) {
	if n.reshapes {
		w.fail(errWholeList)
	}
	for i := range n.fields {
		if m := &n.fields[i]; m.isSet(a) {
			w.writeRemoval(m, m.locate(a), m.locate(b), false)
		}
	}
}

// emptied reports whether the patch removes the elements of an omitted list or
// map one by one. Elements that other clients have added since then remain.
func (w *writer) emptied(f *field) bool {
	return w.style == Strategic && !f.replace && (f.node.kind == kindMap || f.node.kind == kindSlice && f.merge)
}

// writeChange writes how a member changes from a to b, as a merge where the
// server can merge it. The JSON may omit an empty list or map on either side.
func (w *writer) writeChange(f *field, a, b place) {
	if w.style == Strategic && f.merge && f.node.kind == kindSlice {
		w.listDiff(f, (*slice)(a), (*slice)(b))
		return
	}
	w.pair("", f.name, func() {
		if w.style == Strategic && f.replace {
			if w.strict {
				w.fail(errWholeList) // servers replace the whole value
			}
			w.whole(f.node, b)
		} else {
			w.valueDiff(f.node, a, b, f.retain && w.style == Strategic)
		}
	})
}

// valueDiff writes the difference of two values that are not equal.
func (w *writer) valueDiff(n *node, a, b place, retain bool) {
	if w.strict && n.reshapes && n.kind != kindOpaque {
		w.fail(errWholeList) // a merge would replace a value of another shape
	}
	switch n.kind {
	case kindPointer:
		w.pointerDiff(n, *(*place)(a), *(*place)(b), retain)
	case kindStruct:
		w.nested('{', '}', func() { w.structDiff(n, a, b, retain) })
	case kindMap:
		w.mapDiff(n, a, b)
	case kindOpaque:
		w.opaqueDiff(n, a, b)
	case kindAny:
		w.interfaceDiff(n, a, b)
	default:
		if w.style == Strategic && n.kind == kindSlice && n.elem.kind == kindSlice {
			w.fail(errUnmergeable)
			return
		}
		w.fresh(n, b)
	}
}

func (w *writer) pointerDiff(n *node, a, b place, retain bool) {
	switch {
	case b == nil:
		w.nullFor(n.elem, a)
	case a == nil:
		w.fresh(n.elem, b)
	default:
		w.valueDiff(n.elem, a, b, retain)
	}
}

// nullFor writes null in the place of the value at a. A strict patch must not
// remove a list in this way, because the server may have more elements than the
// Go type or a Transform lets the program see. For example, a Go array of
// length two shows only the first two elements.
func (w *writer) nullFor(n *node, a place) {
	if w.strict && w.isList(n, a) {
		w.fail(errWholeList)
	}
	w.null()
}

// isList reports whether the JSON of the value at p is a list.
func (w *writer) isList(n *node, p place) bool {
	switch n.kind {
	case kindSlice:
		return true
	case kindPointer:
		return *(*place)(p) != nil && w.isList(n.elem, *(*place)(p))
	case kindAny:
		_, ok := reflect.TypeAssert[[]any](n.value(p))
		return ok
	case kindOpaque:
		return !isFlat(n.typ) && bytes.HasPrefix(w.opaque(n, p), []byte("["))
	default:
		return false
	}
}

func (w *writer) interfaceDiff(n *node, a, b place) {
	if w.style == Strategic {
		w.fail(errUnmergeable)
		return
	}
	w.anyDiff(n.value(a).Interface(), n.value(b).Interface())
}
