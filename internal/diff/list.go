package diff

import (
	"unsafe"
)

// A mergeKey is the value that identifies an element of a list.
type mergeKey struct {
	text   string
	number int64
}

// mergeList writes a list that the server merges, by the key of its elements or by the elements themselves.
func (w *writer) mergeList(f *field, a, b *slice) {
	if w.equalSlices(f.node, a, b) {
		return
	}
	before, after := w.keys(f, a), w.keys(f, b)
	if w.err != nil {
		return
	}
	if f.node.elem.kind == kindString {
		w.mergeScalars(f, a, b, before, after)
	} else {
		w.mergeElements(f, a, b, before, after)
	}
	if after.needsOrder(before) {
		w.order(f, b)
	}
}

// A keyed list is the keys of its elements in their order.
type keyed struct {
	keys  []mergeKey
	index map[mergeKey]int // only for long lists
}

const longList = 16

// find is the position of key in the list, or -1.
func (k *keyed) find(key mergeKey) int {
	if k.index != nil {
		if i, ok := k.index[key]; ok {
			return i
		}
		return -1
	}
	for i := range k.keys {
		if k.keys[i] == key {
			return i
		}
	}
	return -1
}

func (k *keyed) add(key mergeKey) {
	k.keys = append(k.keys, key)
	switch {
	case k.index != nil:
		k.index[key] = len(k.keys) - 1
	case len(k.keys) > longList:
		k.index = make(map[mergeKey]int, 2*len(k.keys))
		for i, known := range k.keys {
			k.index[known] = i
		}
	}
}

// needsOrder reports whether the server could not find the order by itself: it keeps its own order for
// the elements it has, and puts new ones first.
func (k *keyed) needsOrder(before keyed) bool {
	if len(before.keys) == 0 {
		return false
	}
	last := -1
	for _, key := range k.keys {
		at := before.find(key)
		if at < last {
			return true
		}
		last = at
	}
	return false
}

// keys reads the keys of s. Every element must have one, and no two the same.
func (w *writer) keys(f *field, s *slice) keyed {
	out := keyed{keys: make([]mergeKey, 0, s.len)}
	elem := f.node.elem
	var member *field
	if elem.kind == kindStruct {
		member = elem.member(f.mergeKey)
	}
	if member == nil && elem.kind != kindString {
		w.fail(errUnmergeable)
		return out
	}
	for i := range s.len {
		key, ok := keyOf(elem, member, f.node.index(s, i))
		if !ok || out.find(key) >= 0 {
			w.fail(errUnmergeable)
			return out
		}
		out.add(key)
	}
	return out
}

func keyOf(elem *node, member *field, p unsafe.Pointer) (mergeKey, bool) {
	n := elem
	if member != nil {
		n, p = member.node, member.at(p)
		if member.omitted(p) {
			return mergeKey{}, false
		}
	}
	switch n.kind {
	case kindString:
		return mergeKey{text: *(*string)(p)}, true
	case kindInt:
		return mergeKey{number: n.value(p).Int()}, true
	default:
		return mergeKey{}, false
	}
}

func (w *writer) mergeScalars(f *field, a, b *slice, before, after keyed) {
	start := len(w.buf)
	w.key("", f.name)
	if !w.nested('[', ']', func() { w.without(f.node, b, after, before) }) {
		w.buf = w.buf[:start]
	}
	start = len(w.buf)
	w.key(deleteScalars, f.name)
	if !w.nested('[', ']', func() { w.without(f.node, a, before, after) }) {
		w.buf = w.buf[:start]
	}
}

// without writes the elements of s, whose keys are own, that are not in other.
func (w *writer) without(n *node, s *slice, own, other keyed) {
	for i, key := range own.keys {
		if other.find(key) < 0 {
			w.comma()
			w.whole(n.elem, n.index(s, i))
		}
	}
}

func (w *writer) mergeElements(f *field, a, b *slice, before, after keyed) {
	start := len(w.buf)
	w.key("", f.name)
	if !w.nested('[', ']', func() {
		w.changed(f, a, b, before, after)
		w.removed(f, a, before, after)
	}) {
		w.buf = w.buf[:start]
	}
}

func (w *writer) changed(f *field, a, b *slice, before, after keyed) {
	elem := f.node.elem
	for i, key := range after.keys {
		p, start := f.node.index(b, i), len(w.buf)
		w.comma()
		at := before.find(key)
		if at < 0 {
			w.whole(elem, p)
			continue
		}
		w.buf = append(w.buf, '{')
		w.keyMember(f, p)
		inner := len(w.buf)
		w.structDiff(elem, f.node.index(a, at), p, f.retain)
		if len(w.buf) == inner {
			w.buf = w.buf[:start]
			continue
		}
		w.buf = append(w.buf, '}')
	}
}

func (w *writer) removed(f *field, a *slice, before, after keyed) {
	for i, key := range before.keys {
		if after.find(key) >= 0 {
			continue
		}
		w.comma()
		w.buf = append(w.buf, `{"$patch":"delete"`...)
		w.keyMember(f, f.node.index(a, i))
		w.buf = append(w.buf, '}')
	}
}

// keyMember writes the member that identifies the element at p.
func (w *writer) keyMember(f *field, p unsafe.Pointer) {
	m := f.node.elem.member(f.mergeKey)
	w.key("", m.name)
	w.whole(m.node, m.at(p))
}

// order writes the wanted order of the elements of b.
func (w *writer) order(f *field, b *slice) {
	w.key(setOrder, f.name)
	w.buf = append(w.buf, '[')
	for i := range b.len {
		p := f.node.index(b, i)
		w.comma()
		if f.node.elem.kind == kindString {
			w.whole(f.node.elem, p)
			continue
		}
		w.buf = append(w.buf, '{')
		w.keyMember(f, p)
		w.buf = append(w.buf, '}')
	}
	w.buf = append(w.buf, ']')
}
