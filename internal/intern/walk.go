package intern

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A walk goes through one object, from the whole to its parts, and takes each
// part from where it first finds an equal one: the same place of an object that
// is like this one, the element before, or the table. It does
// not look into parts that it has taken. These are its invariants:
//
//   - It writes only to memory that the object alone has: what it takes from
//     elsewhere is never walked.
//   - What it reads elsewhere nothing writes to: lazy values are not looked at.
//   - A part becomes known after everything within it has been walked.
//   - What is within a part that becomes known does not, so that it costs one
//     entry.
//   - Below deepest parts within parts it does not look, so that it takes time in
//     proportion to the size of the object.
type walk struct {
	*Pool
	object uint32
	learns bool // parts that were seen before
	depth  int  // parts that the walk is within
	recent *texts
}

// texts are some texts of the object that is walked: an address or the name of a
// volume is in it more than once, and in no other object.
type texts [64]string

var spare = sync.Pool{New: func() any { return &texts{} }} // empty ones

// likes are values of the same type as one that is walked: nil where there is
// none.
type likes struct {
	old  place // in another object
	twin place // in this one, and walked before
}

// sizes below which a part is not worth an entry in the table, which takes about
// as much. Smaller parts are still taken from likes.
const (
	worthKnowing     = 64
	worthKnowingText = 48

	deepest = 10
)

// worthClipping is how many bytes a slice must have to spare for a copy without
// them. Decoders append, and leave much.
const worthClipping = 64

// fields shares the parts of the value at p.
func (w walk) fields(p place, like likes, of *plan) {
	for i := range of.fields {
		f := &of.fields[i]
		w.field(at(p, f.offset), likes{at(like.old, f.offset), at(like.twin, f.offset)}, f)
	}
}

func (w walk) field(p place, like likes, f *field) {
	if !f.kind.parted() || w.depth == deepest {
		return
	}
	for _, other := range [...]place{like.old, like.twin} {
		if other != nil && equalField(p, other, f, exact) {
			f.take(p, other)
			return
		}
	}
	switch f.kind {
	case text:
		*textAt(p) = w.text(*textAt(p))
	case list:
		w.list(listAt(p), like, f.to)
	case pointer:
		w.pointer(pointerAt(p), like, f.to)
	case dynamic:
		*anyAt(p) = w.any(*anyAt(p), anyOr(like.old), anyOr(like.twin))
	case dynamicMap:
		m := mapAt[any](p)
		*m, _ = w.any(*m, contentOr(like.old), contentOr(like.twin)).(map[string]any)
	default:
		w.entries(pointerAt(p), like, f.kind)
	}
}

// parted reports whether fields of this kind have parts.
func (k kind) parted() bool { return k >= text && k < object }

// take makes the field at p the equal one at other.
func (f *field) take(p, other place) {
	switch f.kind {
	case text:
		*textAt(p) = *textAt(other)
	case list:
		h := listAt(p)
		h.data, h.cap = listAt(other).data, h.len
	case dynamic:
		*anyAt(p) = *anyAt(other)
	default:
		*pointerAt(p) = *pointerAt(other)
	}
}

// inside returns the walk of the parts within a part.
func (w walk) inside(learned bool) walk {
	w.depth++
	w.learns = w.learns && !learned
	return w
}

// text returns t or what equals it in the object or in the table.
func (w walk) text(t string) string {
	if t == "" {
		return ""
	}
	hash := w.textHash(t)
	recent := &w.recent[hash%uint64(len(w.recent))]
	if *recent != t {
		*recent = w.knownText(t, hash)
	}
	return *recent
}

func (w walk) knownText(t string, hash uint64) string {
	if len(t) < worthKnowingText {
		return t
	}
	what := shapeOf(text, nil, len(t))
	known, again := w.look(hash, what, w.object, w.learns)
	if known != nil {
		if equal := textOf(known, len(t)); equal == t {
			return equal
		}
	}
	if again {
		t = strings.Clone(t) // for sure nothing else with it
		w.learn(hash, what, placeOfText(t))
	}
	return t
}

func (w walk) list(h *header, like likes, elem *plan) {
	if h.len == 0 {
		return
	}
	var hash uint64
	var again bool
	what := shapeOf(list, elem, h.len)
	if uintptr(h.len)*elem.size >= worthKnowing {
		if sum, ok := w.hashList(h, elem); ok {
			var known place
			hash = sum
			if known, again = w.look(hash, what, w.object, w.learns); known != nil &&
				equalElements(known, h.data, h.len, elem, exact) {
				h.data, h.cap = known, h.len
				return
			}
		}
	}
	if uintptr(h.cap-h.len)*elem.size >= worthClipping {
		*h = clipped(h, elem)
	}
	if !elem.plain {
		w.inside(again).elements(h, like, elem)
	}
	if again {
		h.cap = h.len
		w.learn(hash, what, h.data)
	}
}

// elements shares the parts of the elements of a list.
func (w walk) elements(h *header, like likes, elem *plan) {
	var old, twin header
	if like.old != nil {
		old = *listAt(like.old)
	}
	if like.twin != nil {
		twin = *listAt(like.twin)
	}
	for n := range h.len {
		var of likes
		offset := uintptr(n) * elem.size
		if n < old.len {
			of.old = at(old.data, offset)
		}
		if n > 0 {
			of.twin = at(h.data, offset-elem.size)
		} else if twin.len > 0 {
			of.twin = twin.data
		}
		w.fields(at(h.data, offset), of, elem)
	}
}

func (w walk) pointer(to *place, like likes, p *plan) {
	if *to == nil || p.plain && p.size < worthKnowing {
		return
	}
	var hash uint64
	var again bool
	what := shapeOf(pointer, p, 1)
	if p.size >= worthKnowing {
		if sum, ok := w.hash(*to, p); ok {
			var known place
			hash = sum
			if known, again = w.look(hash, what, w.object, w.learns); known != nil && equal(known, *to, p, exact) {
				*to = known
				return
			}
		}
	}
	var of likes
	if like.old != nil {
		of.old = *pointerAt(like.old)
	}
	if like.twin != nil {
		of.twin = *pointerAt(like.twin)
	}
	w.inside(again).fields(*to, of, p)
	if again {
		w.learn(hash, what, *to)
	}
}

// entries shares a map, or its keys and values.
func (w walk) entries(to *place, like likes, k kind) {
	n := length(*to)
	if n == 0 {
		return
	}
	var again bool
	what := shapeOf(k, nil, n)
	hash, ok := w.hashMap(*to, k)
	if ok {
		var known place
		if known, again = w.look(hash, what, w.object, w.learns); known != nil && equalMaps(known, *to, k, exact) {
			*to = known
			return
		}
	}
	inner := w.inside(again)
	for _, other := range [...]place{like.old, like.twin} {
		if other != nil {
			takeEntries(*to, *pointerAt(other), k)
		}
	}
	switch k {
	case stringMap:
		m := mapOf[string](*to)
		for key, value := range m {
			m[key] = inner.text(value)
		}
	case bytesMap:
		m := mapOf[[]byte](*to)
		for key, value := range m {
			m[key] = inner.data(value)
		}
	}
	if again {
		w.learn(hash, what, *to)
	}
}

// takeEntries takes the entries of other that m has, too.
func takeEntries(m, other place, k kind) {
	switch k {
	case stringMap:
		takeEqual(mapOf[string](m), mapOf[string](other), func(x, y string) bool { return x == y })
	case bytesMap:
		takeEqual(mapOf[[]byte](m), mapOf[[]byte](other), equalData)
	default:
		takeEqual(mapOf[resource.Quantity](m), mapOf[resource.Quantity](other),
			func(x, y resource.Quantity) bool { return x == y })
	}
}

func takeEqual[V any](m, other map[string]V, equal func(x, y V) bool) {
	for key, value := range other {
		if own, ok := m[key]; ok && equal(own, value) {
			m[key] = value // and the key, which may be in another place
		}
	}
}

func equalData(x, y []byte) bool { return (x == nil) == (y == nil) && bytes.Equal(x, y) }

func (w walk) data(value []byte) []byte {
	if len(value) < worthKnowing {
		return value
	}
	hash, what := w.mix(uint64(list), uint64(bytesPlan.number), w.dataHash(value)), shapeOf(list, bytesPlan, len(value))
	known, again := w.look(hash, what, w.object, w.learns)
	if known != nil {
		if equal := bytesAt(known, uintptr(len(value))); bytes.Equal(equal, value) {
			return equal
		}
	}
	if again {
		value = slices.Clip(value)
		w.learn(hash, what, placeOfList(value))
	}
	return value
}
