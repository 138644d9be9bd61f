package intern

import (
	"iter"
	"math/bits"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Size returns how many bytes of memory the objects take together with
// everything that they refer to. Each object is a pointer. A part that is
// shared counts once.
//
// Size counts structs, strings, the whole capacity of slices, and maps as Go
// lays them out. It does not count the memory to which lazy values refer (see
// [Lazy]), nor the rounding of the allocator.
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
	if target, p := pointee(obj); p != nil && s.add(target, p.size) {
		s.addTargets(target, p)
	}
}

// add counts a piece of memory unless it is nil, empty or was counted before.
// It reports whether it counted the piece.
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

// addTargets counts the memory that the value at p refers to. It does not read
// lazy values.
func (s *sizer) addTargets(p place, typ *plan) {
	for n := range typ.fields {
		f := &typ.fields[n]
		place := offsetBy(p, f.offset)
		switch f.kind {
		case text:
			s.text(*textAt(place))
		case list:
			h := listAt(place)
			if s.add(h.data, uintptr(h.cap)*f.elem.size) && !f.elem.plain {
				for i := range h.len {
					s.addTargets(offsetBy(h.data, uintptr(i)*f.elem.size), f.elem)
				}
			}
		case pointer:
			if target := *pointerAt(place); s.add(target, f.elem.size) {
				s.addTargets(target, f.elem)
			}
		case stringMap, bytesMap, quantityMap:
			s.entries(*pointerAt(place), f.kind)
		case dynamic:
			s.content(*anyAt(place))
		case dynamicMap:
			s.content(*mapAt[any](place))
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

// addMap counts a map and its keys, and calls add to count what its values
// refer to.
func addMap[V any](s *sizer, m place, add func(V)) {
	entries := mapOf[V](m)
	if !s.add(m, mapSize(len(entries), reflect.TypeFor[V]().Size())) {
		return
	}
	for key, value := range entries {
		s.text(key)
		add(value)
	}
}

// content counts the memory of unstructured content.
func (s *sizer) content(v any) {
	box := dataOf(v) // the map itself if v is a map
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

// mapSize returns the memory of a map from strings to values of size value. A
// map has groups of 8 slots with a word of control bytes each. At most 7/8 of
// the slots are used, unless there is only one group.
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
