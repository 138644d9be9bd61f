package intern

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A walk visits one object, from the whole to its parts, and replaces each part
// with an equal part. It looks for the equal part at the same place of a
// similar object, then in the previous element of a list, and then in the
// table. It does not look into parts that it has replaced. These are its
// invariants:
//
//   - It writes only to memory that belongs to this object alone. Parts from
//     elsewhere are never walked.
//   - It reads only memory that is never written to. It does not read lazy
//     values.
//   - A part enters the table after all parts inside it have been walked.
//   - The parts inside a part that enters the table do not enter it themselves.
//     So the whole part costs one entry.
//   - It does not look into parts nested deeper than maxDepth. So its time is
//     proportional to the size of the object.
type walk struct {
	*Pool
	object   uint32
	updating bool // whether hints are from an earlier state of the object
	learning bool // whether parts that were seen before enter the table
	depth    int  // number of parts around the current one
	recent   *texts
}

// texts is a small cache of strings of the object that is walked. It finds
// strings that occur more than once in one object and in no other object, such
// as an address or the name of a volume.
type texts [64]string

var spare = sync.Pool{New: func() any { return &texts{} }} // empty texts for the next walks

// hints are values of the same type as the value that is walked, and are likely
// to have equal parts. Either may be nil.
type hints struct {
	old  place // a value in an earlier state of this object, or in another object
	twin place // a value in this object that was already walked
}

// Parts smaller than these sizes do not enter the table, because an entry takes
// about as much memory. They are still shared with hints.
const (
	worthKnowing     = 64
	worthKnowingText = 48

	// maxDepth limits how deeply nested parts are walked.
	maxDepth = 10
)

// worthClipping is how many spare bytes a slice must have to be copied without
// them. Decoders append, which leaves much spare capacity.
const worthClipping = 64

// fields shares the parts of the value at p.
func (w walk) fields(p place, hint hints, typ *plan) {
	if w.depth == maxDepth {
		return
	}
	for i := range typ.parts {
		f := &typ.parts[i]
		if place := offsetBy(p, f.offset); *pointerAt(place) != nil { // a string, list, map or pointer that is not empty
			w.field(place, hints{offsetBy(hint.old, f.offset), offsetBy(hint.twin, f.offset)}, f)
		}
	}
}

func (w walk) field(p place, hint hints, f *field) {
	if w.updating && f.kind == bytesMap && w.chances.chance(f.number).isNone() && w.chances.chance(f.number+1).isNone() {
		return // no other object has the earlier bytes, so sharing them saves nothing once the earlier state is dropped
	}
	for _, candidate := range [...]place{hint.old, hint.twin} {
		if candidate != nil && equalField(p, candidate, f, exact) {
			if !w.updating {
				w.chances.chance(f.number).found()
			}
			f.take(p, candidate)
			return
		}
	}
	whole := w.chances.chance(f.number)
	switch f.kind {
	case text:
		*textAt(p) = w.text(*textAt(p), whole)
	case list:
		w.list(listAt(p), hint, f.elem, whole)
	case pointer:
		w.pointer(pointerAt(p), hint, f.elem, whole)
	case dynamic:
		*anyAt(p) = w.shareContent(*anyAt(p), anyOr(hint.old), anyOr(hint.twin))
	case dynamicMap:
		m := mapAt[any](p)
		*m, _ = w.shareContent(*m, contentOr(hint.old), contentOr(hint.twin)).(map[string]any)
	default:
		w.entries(pointerAt(p), hint, f.kind, whole, w.chances.chance(f.number+1))
	}
}

// search looks up a part like [Pool.lookup], and records in c whether it was
// found.
func (w walk) search(hash uint64, key shape, c *chance) (known place, repeated bool) {
	known, repeated = w.lookup(hash, key, w.object, w.learning)
	switch {
	case known != nil || repeated:
		c.found()
	case w.learning:
		c.missed()
	}
	return known, repeated
}

// hasParts reports whether fields of this kind have parts.
func (k kind) hasParts() bool { return k >= text && k < object }

// take replaces the field at p with the equal field at source.
func (f *field) take(p, source place) {
	switch f.kind {
	case text:
		*textAt(p) = *textAt(source)
	case list:
		h := listAt(p)
		h.data, h.cap = listAt(source).data, h.len
	case dynamic:
		*anyAt(p) = *anyAt(source)
	default:
		*pointerAt(p) = *pointerAt(source)
	}
}

// descend returns the walk for the parts inside a part. learned says that the
// part itself enters the table.
func (w walk) descend(learned bool) walk {
	w.depth++
	w.learning = w.learning && !learned
	return w
}

// text returns a string from the object or the table that equals t, or t itself
// if there is no such string.
func (w walk) text(t string, c *chance) string {
	if t == "" {
		return ""
	}
	hash := w.textHash(t)
	recent := &w.recent[hash%uint64(len(w.recent))]
	if *recent != t {
		*recent = w.knownText(t, hash, c)
	}
	return *recent
}

func (w walk) knownText(t string, hash uint64, c *chance) string {
	if len(t) < worthKnowingText || !c.isGood(w.object) {
		return t
	}
	key := shapeOf(text, nil, len(t))
	known, repeated := w.search(hash, key, c)
	if known != nil {
		if equal := textOf(known, len(t)); equal == t {
			return equal
		}
	}
	if repeated {
		t = strings.Clone(t) // t may be a part of a longer string, which it would keep in memory
		w.learn(hash, key, placeOfText(t))
	}
	return t
}

func (w walk) list(h *header, hint hints, elem *plan, c *chance) {
	if h.len == 0 {
		return
	}
	var hash uint64
	var repeated bool
	key := shapeOf(list, elem, h.len)
	if uintptr(h.len)*elem.size >= worthKnowing && c.isGood(w.object) {
		if sum, ok := w.hashList(h, elem); ok {
			var known place
			hash = sum
			if known, repeated = w.search(hash, key, c); known != nil &&
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
		w.descend(repeated).elements(h, hint, elem)
	}
	if repeated {
		h.cap = h.len
		w.learn(hash, key, h.data)
	}
}

// elements shares the parts of the elements of a list.
func (w walk) elements(h *header, hint hints, elem *plan) {
	var old, twin header
	if hint.old != nil {
		old = *listAt(hint.old)
	}
	if hint.twin != nil {
		twin = *listAt(hint.twin)
	}
	for n := range h.len {
		var element hints
		offset := uintptr(n) * elem.size
		if n < old.len {
			element.old = offsetBy(old.data, offset)
		}
		if n > 0 {
			element.twin = offsetBy(h.data, offset-elem.size)
		} else if twin.len > 0 {
			element.twin = twin.data
		}
		w.fields(offsetBy(h.data, offset), element, elem)
	}
}

func (w walk) pointer(target *place, hint hints, p *plan, c *chance) {
	if *target == nil || p.plain && p.size < worthKnowing {
		return
	}
	var hash uint64
	var repeated bool
	key := shapeOf(pointer, p, 1)
	if p.size >= worthKnowing && c.isGood(w.object) {
		if sum, ok := w.hash(*target, p); ok {
			var known place
			hash = sum
			if known, repeated = w.search(hash, key, c); known != nil && equal(known, *target, p, exact) {
				*target = known
				return
			}
		}
	}
	var inner hints
	if hint.old != nil {
		inner.old = *pointerAt(hint.old)
	}
	if hint.twin != nil {
		inner.twin = *pointerAt(hint.twin)
	}
	w.descend(repeated).fields(*target, inner, p)
	if repeated {
		w.learn(hash, key, *target)
	}
}

// entries replaces a map with an equal map from the table. If the table has no
// equal map, entries shares the keys and values of the map.
func (w walk) entries(target *place, hint hints, k kind, whole, values *chance) {
	n := length(*target)
	if n == 0 {
		return
	}
	var hash uint64
	var repeated bool
	mapShape := shapeOf(k, nil, n)
	if whole.isGood(w.object) {
		if sum, ok := w.hashMap(*target, k); ok {
			var known place
			hash = sum
			if known, repeated = w.search(hash, mapShape, whole); known != nil && equalMaps(known, *target, k, exact) {
				*target = known
				return
			}
		}
	}
	inner := w.descend(repeated)
	for _, candidate := range [...]place{hint.old, hint.twin} {
		if candidate != nil {
			takeEntries(*target, *pointerAt(candidate), k)
		}
	}
	switch k {
	case stringMap:
		m := mapOf[string](*target)
		for key, value := range m {
			m[key] = inner.text(value, values)
		}
	case bytesMap:
		m := mapOf[[]byte](*target)
		for key, value := range m {
			m[key] = inner.data(value, values)
		}
	}
	if repeated {
		w.learn(hash, mapShape, *target)
	}
}

// takeEntries replaces each entry of m that equals an entry of source with that
// entry.
func takeEntries(m, source place, k kind) {
	switch k {
	case stringMap:
		takeEqual(mapOf[string](m), mapOf[string](source), func(x, y string) bool { return x == y })
	case bytesMap:
		takeEqual(mapOf[[]byte](m), mapOf[[]byte](source), equalData)
	default:
		takeEqual(mapOf[resource.Quantity](m), mapOf[resource.Quantity](source),
			func(x, y resource.Quantity) bool { return x == y })
	}
}

func takeEqual[V any](m, source map[string]V, equal func(x, y V) bool) {
	for key, value := range source {
		if own, ok := m[key]; ok && equal(own, value) {
			m[key] = value // replaces the key's memory, too
		}
	}
}

func equalData(x, y []byte) bool { return (x == nil) == (y == nil) && bytes.Equal(x, y) }

func (w walk) data(value []byte, c *chance) []byte {
	if len(value) < worthKnowing || !c.isGood(w.object) {
		return value
	}
	hash, key := w.mix(uint64(list), uint64(bytesPlan.number), w.dataHash(value)), shapeOf(list, bytesPlan, len(value))
	known, repeated := w.search(hash, key, c)
	if known != nil {
		if equal := bytesAt(known, uintptr(len(value))); bytes.Equal(equal, value) {
			return equal
		}
	}
	if repeated {
		value = slices.Clip(value)
		w.learn(hash, key, placeOfList(value))
	}
	return value
}
