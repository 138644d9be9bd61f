package diff

// listDiff writes a list that the server merges, by the key of its elements or by the elements themselves.
func (w *writer) listDiff(f *field, a, b *slice) {
	l := listWriter{writer: w, field: f, a: a, b: b, before: w.keys(f, a), after: w.keys(f, b)}
	if w.err != nil {
		return
	}
	if f.node.elem.kind == kindString {
		l.scalars()
	} else {
		l.list("", func() {
			l.changed()
			l.removed()
		})
	}
	if l.after.needsOrder(l.before) {
		l.order()
	}
}

// keyed is the keys of a list, each a string or an int64, in the order of its elements.
type keyed struct {
	keys  []any
	index map[any]int
}

// find is the position of key in the list, or -1.
func (k *keyed) find(key any) int {
	if i, ok := k.index[key]; ok {
		return i
	}
	return -1
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
	out := keyed{index: make(map[any]int, s.len)}
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
		key := keyOf(elem, member, f.node.index(s, i))
		if key == nil || out.find(key) >= 0 {
			w.fail(errUnmergeable)
			return out
		}
		out.keys = append(out.keys, key)
		out.index[key] = i
	}
	return out
}

// keyOf returns the key of the element at p, or nil.
func keyOf(elem *node, member *field, p place) any {
	n := elem
	if member != nil {
		n, p = member.node, member.at(p)
		if member.omitted(p) {
			return nil
		}
	}
	switch n.kind {
	case kindString:
		return *(*string)(p)
	case kindInt:
		return n.value(p).Int()
	default:
		return nil
	}
}

// listWriter writes how one list becomes another.
type listWriter struct {
	*writer

	field         *field
	a, b          *slice
	before, after keyed // the elements of a and b
}

func (l *listWriter) scalars() {
	l.list("", func() { l.without(l.b, l.after, l.before) })
	l.list(deleteScalars, func() { l.without(l.a, l.before, l.after) })
}

// list writes the output of f, if any, as a list.
func (l *listWriter) list(prefix string, f func()) {
	l.pair(prefix, l.field.name, func() { l.nested('[', ']', f) })
}

// without writes the elements of s, whose keys are own, that are not in other.
func (l *listWriter) without(s *slice, own, other keyed) {
	for i, key := range own.keys {
		if other.find(key) < 0 {
			l.comma()
			l.whole(l.field.node.elem, l.field.node.index(s, i))
		}
	}
}

func (l *listWriter) changed() {
	list := l.field.node
	for i, key := range l.after.keys {
		p, start := list.index(l.b, i), len(l.buf)
		l.comma()
		at := l.before.find(key)
		if at < 0 {
			l.whole(list.elem, p)
			continue
		}
		l.buf = append(l.buf, '{')
		l.keyMember(p)
		inner := len(l.buf)
		l.structDiff(list.elem, list.index(l.a, at), p, l.field.retain)
		if len(l.buf) == inner {
			l.buf = l.buf[:start]
			continue
		}
		l.buf = append(l.buf, '}')
	}
}

func (l *listWriter) removed() {
	for i, key := range l.before.keys {
		if l.after.find(key) >= 0 {
			continue
		}
		l.comma()
		l.buf = append(l.buf, `{"$patch":"delete"`...)
		l.keyMember(l.field.node.index(l.a, i))
		l.buf = append(l.buf, '}')
	}
}

// keyMember writes the member that identifies the element at p.
func (l *listWriter) keyMember(p place) {
	m := l.field.node.elem.member(l.field.mergeKey)
	l.key("", m.name)
	l.whole(m.node, m.at(p))
}

// order writes the wanted order of the elements of b.
func (l *listWriter) order() {
	list := l.field.node
	l.key(setOrder, l.field.name)
	l.buf = append(l.buf, '[')
	for i := range l.b.len {
		p := list.index(l.b, i)
		l.comma()
		if list.elem.kind == kindString {
			l.whole(list.elem, p)
			continue
		}
		l.buf = append(l.buf, '{')
		l.keyMember(p)
		l.buf = append(l.buf, '}')
	}
	l.buf = append(l.buf, ']')
}
