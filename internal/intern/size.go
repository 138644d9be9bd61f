package intern

import (
	"iter"
	"math/bits"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Size returns how many bytes of memory objects, each a pointer, take with all
// that they hold. A part that several of them share, or one has twice, counts once.
//
// It counts what their own types tell: structs, strings, the whole capacity of
// slices, and maps as Go lays them out. It does not count what the allocator
// rounds up to.
func Size[T any](objects iter.Seq[T]) (size int64) {
	s := sizer{seen: map[place]struct{}{}}
	for obj := range objects {
		s.object(obj)
	}
	return s.sum
}

// A sizer adds up sizes.
type sizer struct {
	seen map[place]struct{}
	sum  int64
}

func (s *sizer) object(obj any) {
	if to, p := pointee(obj); p != nil && s.add(to, p.size) {
		s.within(to, p)
	}
}

// add counts a piece of memory, unless it is known or not there.
func (s *sizer) add(p place, size uintptr) (fresh bool) {
	if p == nil || size == 0 {
		return false
	}
	if _, known := s.seen[p]; known {
		return false
	}
	s.seen[p] = struct{}{}
	s.sum += int64(size)
	return true
}

func (s *sizer) text(t string) { s.add(placeOfText(t), uintptr(len(t))) }

// within counts the memory that the value at p refers to. Lazy values are not
// read.
func (s *sizer) within(p place, of *plan) {
	for n := range of.fields {
		f := &of.fields[n]
		here := at(p, f.offset)
		switch f.kind {
		case text:
			s.text(*textAt(here))
		case list:
			h := listAt(here)
			if s.add(h.data, uintptr(h.cap)*f.to.size) && !f.to.plain {
				for i := range h.len {
					s.within(at(h.data, uintptr(i)*f.to.size), f.to)
				}
			}
		case pointer:
			if to := *pointerAt(here); s.add(to, f.to.size) {
				s.within(to, f.to)
			}
		case stringMap, bytesMap, quantityMap:
			s.entries(*pointerAt(here), f.kind)
		case dynamic:
			s.content(*anyAt(here))
		case dynamicMap:
			s.content(*mapAt[any](here))
		}
	}
}

func (s *sizer) entries(m place, k kind) {
	switch k {
	case stringMap:
		addMap(s, m, s.text)
	case bytesMap:
		addMap(s, m, func(value []byte) { s.add(placeOfList(value), uintptr(cap(value))) })
	default:
		addMap(s, m, func(resource.Quantity) {})
	}
}

// addMap counts a map, its keys, and by add what its values refer to.
func addMap[V any](s *sizer, m place, add func(V)) {
	all := mapOf[V](m)
	if !s.add(m, mapSize(len(all), reflect.TypeFor[V]().Size())) {
		return
	}
	for key, value := range all {
		s.text(key)
		add(value)
	}
}

// content counts what unstructured content holds.
func (s *sizer) content(v any) {
	box := dataOf(v) // of a map, the map itself
	switch v := v.(type) {
	case string:
		if s.add(box, textSize) {
			s.text(v)
		}
	case int64, float64:
		s.add(box, wordSize)
	case []any:
		if s.add(box, listSize) && s.add(placeOfList(v), uintptr(cap(v))*anySize) {
			for _, elem := range v {
				s.content(elem)
			}
		}
	case map[string]any:
		addMap(s, box, s.content)
	}
}

// mapSize is the memory of a map of n strings to values of that size: groups
// of 8 slots with a word of control bytes each, at most 7/8 of them used unless
// there is but one.
func mapSize(length int, value uintptr) uintptr {
	const header = 48
	group := 8 * (1 + textSize + value)
	switch {
	case length == 0:
		return header
	case length <= 8:
		return header + group
	default:
		slots := uintptr(1) << bits.Len(uint(length*8/7))
		return header + slots/8*group
	}
}
