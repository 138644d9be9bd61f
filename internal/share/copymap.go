package share

import (
	"math/bits"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A copiedMap is a map that belongs to a Copy, with what was copied into it: to
// look up entries of a list costs half of going through a map.
type copiedMap[V comparable] struct {
	own     map[string]V
	from    map[string]V
	entries []pair[V] // of from, but for values that own has copies of
}

type pair[V comparable] struct {
	key   string
	value V
}

// copyMap copies a map that is not nil.
func (c *Copy) copyMap(to, from unsafe.Pointer, k kind) {
	n := length(*(*unsafe.Pointer)(from))
	size := bits.Len(uint(n)) // maps of about that size
	switch k {
	case stringMap:
		m := (*copiedMap[string])(c.take(k, nil, size))
		m.copy(*(*map[string]string)(from), func(s string) (string, bool) { return s, true })
		*(*map[string]string)(to) = m.own
	case quantityMap:
		m := (*copiedMap[resource.Quantity])(c.take(k, nil, size))
		m.copy(*(*map[string]resource.Quantity)(from), copyQuantity)
		*(*map[string]resource.Quantity)(to) = m.own
	default:
		fresh := make(map[string][]byte, n)
		for key, value := range *(*map[string][]byte)(from) {
			fresh[key] = append(value[:0:0], value...)
		}
		*(*map[string][]byte)(to) = fresh
	}
}

// copyQuantity returns a deep copy, and whether it is one without more ado.
func copyQuantity(q resource.Quantity) (copied resource.Quantity, flat bool) {
	copied = q.DeepCopy()
	return copied, copied == q
}

// copy makes m.own equal to from, unless it is so yet. Only values that cannot
// be edited in place stay there from an earlier copy.
func (m *copiedMap[V]) copy(from map[string]V, deep func(V) (copied V, flat bool)) {
	if m.from = from; m.is(from) && m.is(m.own) {
		return
	}
	m.empty()
	m.from = from
	for key, value := range from {
		copied, flat := deep(value)
		m.own[key] = copied
		if flat {
			m.entries = append(m.entries, pair[V]{key, value})
		}
	}
}

// is tells whether x is what was copied, bit by bit.
func (m *copiedMap[V]) is(x map[string]V) bool {
	if len(x) != len(m.entries) {
		return false
	}
	for n := range m.entries {
		e := &m.entries[n]
		if value, ok := x[e.key]; !ok || value != e.value {
			return false
		}
	}
	return true
}

// unchanged tells whether y is m.own, copied from x and not changed since then.
func (m *copiedMap[V]) unchanged(x, y unsafe.Pointer) bool {
	return pointerOf(m.own) == y && pointerOf(m.from) == x && m.is(m.own)
}

func pointerOf[V any](m map[string]V) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&m))
}

// empty drops the content of the map.
func (m *copiedMap[V]) empty() {
	clear(m.own)
	clear(m.entries)
	m.from, m.entries = nil, m.entries[:0]
}

// unchanged tells whether y, a map, is the copy of x, and not changed since then.
// It may say no if maps have changed their places.
func (c *Copy) unchanged(x, y unsafe.Pointer, k kind) bool {
	for ; c.seen < c.used; c.seen++ {
		if part := &c.parts[c.seen]; part.kind == k {
			c.seen++
			if k == stringMap {
				return (*copiedMap[string])(part.at).unchanged(x, y)
			}
			return (*copiedMap[resource.Quantity])(part.at).unchanged(x, y)
		}
	}
	return false
}
