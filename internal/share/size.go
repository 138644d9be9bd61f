package share

import (
	"iter"
	"math/bits"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Size returns how many bytes of memory objects, each a pointer, take with all
// that they hold. What several of them share, or one has twice, counts once.
//
// It counts what their own types tell: structs, strings, the whole capacity of
// slices, and maps as Go lays them out. It does not count what the allocator
// rounds up to.
func Size[T any](objects iter.Seq[T]) (size int64) {
	s := sizer{seen: map[unsafe.Pointer]struct{}{}}
	for obj := range objects {
		s.object(obj)
	}
	return s.sum
}

// A sizer adds up sizes.
type sizer struct {
	seen map[unsafe.Pointer]struct{}
	sum  int64
}

func (s *sizer) object(obj any) {
	if at, p := pointee(obj); p != nil && s.add(at, p.size) {
		s.within(at, p)
	}
}

// add counts a piece of memory, unless it is known or not there.
func (s *sizer) add(at unsafe.Pointer, size uintptr) (fresh bool) {
	if at == nil || size == 0 {
		return false
	}
	if _, known := s.seen[at]; known {
		return false
	}
	s.seen[at] = struct{}{}
	s.sum += int64(size)
	return true
}

func (s *sizer) text(t string) { s.add(unsafe.Pointer(unsafe.StringData(t)), uintptr(len(t))) }

// within counts what the value at at holds beyond itself.
func (s *sizer) within(at unsafe.Pointer, p *plan) {
	for n := range p.fields {
		f := &p.fields[n]
		here := unsafe.Add(at, f.offset)
		switch f.kind {
		case text:
			s.text(*(*string)(here))
		case list:
			h := (*header)(here)
			if s.add(h.data, uintptr(h.cap)*f.to.size) && !f.to.plain {
				for i := range h.len {
					s.within(unsafe.Add(h.data, uintptr(i)*f.to.size), f.to)
				}
			}
		case pointer:
			if to := *(*unsafe.Pointer)(here); s.add(to, f.to.size) {
				s.within(to, f.to)
			}
		case stringMap, bytesMap, quantityMap:
			s.entries(here, f.kind)
		case dynamic:
			s.content(*(*any)(here))
		case dynamicMap:
			s.content(*(*map[string]any)(here))
		}
	}
}

// entries counts the map at at.
func (s *sizer) entries(at unsafe.Pointer, k kind) {
	to := *(*unsafe.Pointer)(at)
	switch k {
	case stringMap:
		if s.add(to, mapSize(length(to), unsafe.Sizeof(""))) {
			for key, value := range *(*map[string]string)(at) {
				s.text(key)
				s.text(value)
			}
		}
	case bytesMap:
		if s.add(to, mapSize(length(to), unsafe.Sizeof([]byte(nil)))) {
			for key, value := range *(*map[string][]byte)(at) {
				s.text(key)
				s.add(unsafe.Pointer(unsafe.SliceData(value)), uintptr(cap(value)))
			}
		}
	default:
		if s.add(to, mapSize(length(to), quantityType.Size())) {
			for key := range *(*map[string]resource.Quantity)(at) {
				s.text(key)
			}
		}
	}
}

// content counts what unstructured content holds.
func (s *sizer) content(v any) {
	box := (*eface)(unsafe.Pointer(&v)).data // what the interface points to: of a map, the map itself
	switch v := v.(type) {
	case string:
		if s.add(box, unsafe.Sizeof(v)) {
			s.text(v)
		}
	case int64, float64:
		s.add(box, unsafe.Sizeof(uint64(0)))
	case []any:
		data := unsafe.Pointer(unsafe.SliceData(v))
		if s.add(box, unsafe.Sizeof(v)) && s.add(data, uintptr(cap(v))*unsafe.Sizeof(any(nil))) {
			for _, elem := range v {
				s.content(elem)
			}
		}
	case map[string]any:
		if s.add(box, mapSize(len(v), unsafe.Sizeof(any(nil)))) {
			for key, value := range v {
				s.text(key)
				s.content(value)
			}
		}
	}
}

// mapSize is what a map of so many strings to values of that size takes: groups
// of 8 slots with a word of control bytes each, at most 7/8 of them used unless
// there is but one.
func mapSize(length int, value uintptr) uintptr {
	const header = 48
	group := 8 * (1 + unsafe.Sizeof("") + value)
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
