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
	if retain && len(w.buf) > start {
		w.retained(n, b)
	}
}

// retained names the members that b has, if any: the server clears all others.
func (w *writer) retained(n *node, b place) {
	var names []string
	for i := range n.fields {
		f := &n.fields[i]
		if p := f.at(b); !f.omitted(p) && !f.node.null(p) {
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

// member writes one member of an object, if it differs. Either side may be left out of the JSON. If it is
// retained, the patch names all members that are to stay, and no other may have a value.
func (w *writer) member(f *field, a, b place, retained bool) {
	if w.equalFields(f, a, b) {
		return
	}
	noA, noB := f.omitted(a), f.omitted(b)
	switch {
	case noB && w.style == JSON && f.byKey:
		w.key("", f.name)
		w.stringsDiff(*(*map[string]string)(a), nil)
	case noB && !retained && w.emptied(f):
		w.change(f, a, b)
	case noB:
		w.key("", f.name)
		w.null()
	case noA && w.style == Strategic && f.merge && f.node.kind == kindSlice:
		w.change(f, a, b)
	case noA:
		w.pair("", f.name, func() { w.wholeUnlessNull(f.node, b) })
	default:
		w.change(f, a, b)
	}
}

// emptied reports whether a container that is now left out loses its elements one by one, so that
// elements that other clients have added since it was read survive.
func (w *writer) emptied(f *field) bool {
	return w.style == Strategic && !f.replace && (f.node.kind == kindMap || f.node.kind == kindSlice && f.merge)
}

// change writes the member, of which both a and b are there.
func (w *writer) change(f *field, a, b place) {
	if w.style == Strategic && f.merge && f.node.kind == kindSlice {
		w.listDiff(f, (*slice)(a), (*slice)(b))
		return
	}
	w.pair("", f.name, func() {
		if w.style == Strategic && f.replace {
			w.whole(f.node, b)
		} else {
			w.valueDiff(f.node, a, b, f.retain && w.style == Strategic)
		}
	})
}

// valueDiff writes the difference of two values, which are not equal.
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
		w.whole(n, b)
	}
}

func (w *writer) pointerDiff(n *node, a, b place, retain bool) {
	switch {
	case b == nil:
		w.null()
	case a == nil:
		w.whole(n.elem, b)
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
