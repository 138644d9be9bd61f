package diff

// listDiff writes the change of a list that the server merges. It merges
// objects by their key, and strings by their values.
func (w *writer) listDiff(f *field, a, b *slice) {
	l := listWriter{writer: w, field: f, a: a, b: b, oldKeys: w.keys(f, a), newKeys: w.keys(f, b)}
	if w.err != nil {
		return
	}
	if f.node.elem.kind == kindString {
		l.writeScalars()
	} else {
		l.writeList("", func() {
			l.writeChanged()
			l.writeRemoved()
		})
	}
	if l.newKeys.needsOrder(l.oldKeys) {
		l.writeOrder()
	}
}

// keyed holds the keys of a list's elements in their order. Each key is a
// string or an int64.
type keyed struct {
	keys  []any
	index map[any]int
}

// find returns the position of key in the list, or -1.
func (k *keyed) find(key any) int {
	if i, ok := k.index[key]; ok {
		return i
	}
	return -1
}

// needsOrder reports whether the patch must tell the server the order. Without
// an order in the patch, the server keeps the order of the elements that it
// has, and puts new elements first.
func (k *keyed) needsOrder(original keyed) bool {
	if len(original.keys) == 0 {
		return false
	}
	previous := -1
	for _, key := range k.keys {
		position := original.find(key)
		if position < previous {
			return true
		}
		previous = position
	}
	return false
}

// keys reads the keys of s. It fails if an element has no key or if two
// elements have the same key.
func (w *writer) keys(f *field, s *slice) keyed {
	result := keyed{index: make(map[any]int, s.len)}
	elem := f.node.elem
	var member *field
	if elem.kind == kindStruct {
		member = elem.member(f.mergeKey)
	}
	if member == nil && elem.kind != kindString {
		w.fail(errUnmergeable)
		return result
	}
	for i := range s.len {
		key := keyOf(elem, member, f.node.index(s, i))
		if key == nil || result.find(key) >= 0 {
			w.fail(errUnmergeable)
			return result
		}
		result.keys = append(result.keys, key)
		result.index[key] = i
	}
	return result
}

// keyOf returns the key of the element at p. It returns nil if the element has
// no key, or a key that is neither a string nor a signed integer.
func keyOf(elem *node, member *field, p place) any {
	n := elem
	if member != nil {
		n, p = member.node, member.locate(p)
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

// listWriter writes the patch that turns the list a into the list b.
type listWriter struct {
	*writer

	field            *field
	a, b             *slice
	oldKeys, newKeys keyed // the keys of the elements of a and b
}

func (l *listWriter) writeScalars() {
	l.writeList("", func() { l.writeMissing(l.b, l.newKeys, l.oldKeys) })
	l.writeList(deleteScalars, func() { l.writeMissing(l.a, l.oldKeys, l.newKeys) })
}

// writeList writes the output of f as a list, unless f writes no output.
func (l *listWriter) writeList(prefix string, f func()) {
	l.pair(prefix, l.field.name, func() { l.nested('[', ']', f) })
}

// writeMissing writes the elements of s whose keys are not in known. elements
// holds the keys of s.
func (l *listWriter) writeMissing(s *slice, elements, known keyed) {
	for i, key := range elements.keys {
		if known.find(key) < 0 {
			l.comma()
			l.whole(l.field.node.elem, l.field.node.index(s, i))
		}
	}
}

func (l *listWriter) writeChanged() {
	list := l.field.node
	for i, key := range l.newKeys.keys {
		p, start := list.index(l.b, i), len(l.buf)
		l.comma()
		position := l.oldKeys.find(key)
		if position < 0 {
			l.whole(list.elem, p)
			continue
		}
		l.buf = append(l.buf, '{')
		l.keyMember(p)
		inner := len(l.buf)
		l.structDiff(list.elem, list.index(l.a, position), p, l.field.retain)
		if len(l.buf) == inner {
			l.buf = l.buf[:start]
			continue
		}
		l.buf = append(l.buf, '}')
	}
}

func (l *listWriter) writeRemoved() {
	for i, key := range l.oldKeys.keys {
		if l.newKeys.find(key) >= 0 {
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
	l.whole(m.node, m.locate(p))
}

// writeOrder writes the keys of b in order. The server then puts the elements
// into that order.
func (l *listWriter) writeOrder() {
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
