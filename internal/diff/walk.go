package diff

import (
	"slices"
)

const (
	retainKeys    = "$retainKeys"
	setOrder      = "$setElementOrder/"
	deleteScalars = "$deleteFromPrimitiveList/"
)

// writer walks two objects at once and writes their difference.
type writer struct{ output }

// structDiff writes the members that differ, without braces.
func (w *writer) structDiff(n *node, a, b place, retain bool) {
	start := len(w.buf)
	for i := range n.fields {
		f := &n.fields[i]
		w.member(f, f.at(a), f.at(b), retain)
	}
	if retain && len(w.buf) > start && n.losesMember(a, b) {
		w.writeRetained(n, b)
	}
}

// loses reports whether b lacks a member that a has.
func (n *node) losesMember(a, b place) bool {
	return slices.ContainsFunc(n.fields, func(f field) bool { return f.has(a) && !f.has(b) })
}

// has reports whether the struct at p has a value for the member.
func (f *field) has(p place) bool {
	value := f.at(p)
	return !f.omitted(value) && !f.node.null(value)
}

// writeRetained names the members that b has, if any. The server then clears
// all other members, including the ones that the Go type does not know. So it
// is called only if the edit has replaced one member of a union by another.
func (w *writer) writeRetained(n *node, b place) {
	var names []string
	for i := range n.fields {
		f := &n.fields[i]
		if f.has(b) {
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
// omitted from the JSON. If retained is set, the patch names all members that
// remain, and no others may have a value.
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

// writeRemoval writes a member that the edited object omits. From a struct it
// removes only the members that the Go type has.
func (w *writer) writeRemoval(f *field, a, b place, retained bool) {
	switch {
	case w.style == JSON && f.byKey:
		w.key("", f.name)
		w.stringsDiff(*(*map[string]string)(a), nil)
	case !retained && w.emptied(f):
		w.writeChange(f, a, b)
	case !retained && w.strict && f.node.kind == kindStruct:
		w.pair("", f.name, func() {
			w.nested('{', '}', func() {
				for i := range f.node.fields {
					if m := &f.node.fields[i]; m.has(a) {
						w.writeRemoval(m, m.at(a), m.at(b), false)
					}
				}
			})
		})
	default:
		if w.strict && (f.node.kind == kindSlice || f.node.kind == kindMap && w.style == JSON) {
			w.fail(errWholeList)
		}
		w.key("", f.name)
		w.null()
	}
}

// emptied reports whether an omitted container loses its elements one by one,
// so that elements that other clients have added since remain.
func (w *writer) emptied(f *field) bool {
	return w.style == Strategic && !f.replace && (f.node.kind == kindMap || f.node.kind == kindSlice && f.merge)
}

// writeChange writes the change of a member that both a and b have.
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
		w.null()
	case a == nil:
		w.fresh(n.elem, b)
	default:
		w.valueDiff(n.elem, a, b, retain)
	}
}

func (w *writer) interfaceDiff(n *node, a, b place) {
	if w.style == Strategic {
		w.fail(errUnmergeable)
		return
	}
	w.anyDiff(n.value(a).Interface(), n.value(b).Interface())
}
