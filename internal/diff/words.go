package diff

import (
	"cmp"
	"slices"
	"unsafe"
)

// word is the unit in which structs are compared: after a deep copy nearly all of
// them are the same, those of strings and numbers included.
const word = unsafe.Sizeof(uint64(0))

// layOut prepares struct n to be compared by words. Structs with another
// alignment are compared field by field.
func (n *node) layOut() {
	if uintptr(n.typ.Align()) != word {
		return
	}
	for i := range n.fields {
		n.layout = append(n.layout, &n.fields[i])
	}
	slices.SortFunc(n.layout, func(a, b *field) int { // of two at one offset, one is empty
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.end(), b.end()))
	})
	at := 0
	for i := range n.typ.Size() / word {
		for at < len(n.layout) && n.layout[at].end() <= i*word {
			at++
		}
		n.first = append(n.first, at)
	}
}

// end returns the offset behind the field.
func (f *field) end() uintptr { return f.offset + f.node.typ.Size() }

// equalStructs compares only fields of which a word differs: the same bytes have the same JSON.
func (c *comparer) equalStructs(n *node, a, b unsafe.Pointer) bool {
	if n.layout == nil {
		return c.equalEachField(n, a, b)
	}
	for i := uintptr(0); i < uintptr(len(n.first)); {
		at := i * word
		if *(*uint64)(unsafe.Add(a, at)) == *(*uint64)(unsafe.Add(b, at)) {
			i++
			continue
		}
		next := i + 1
		for _, f := range n.layout[n.first[i]:] {
			if f.offset >= at+word {
				break
			}
			if !c.equalFields(f, f.at(a), f.at(b)) {
				return false
			}
			next = max(next, f.end()/word)
		}
		i = next
	}
	return true
}

func (c *comparer) equalEachField(n *node, a, b unsafe.Pointer) bool {
	for i := range n.fields {
		f := &n.fields[i]
		if !c.equalFields(f, f.at(a), f.at(b)) {
			return false
		}
	}
	return true
}
