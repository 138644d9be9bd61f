package intern

import (
	"bytes"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Alike reports whether two pointers of one type point to values that are deeply
// equal, bit by bit, apart from lazy values: it does not look at them, so that
// others may be reading both. Quantities in maps are equal if their amounts are.
// It may report false where it does not understand the type.
func Alike(a, b any) bool {
	x, p := pointee(a)
	y, q := pointee(b)
	return p != nil && p == q && equal(x, y, p, apart)
}

// A mode says what is made of lazy values, which are read in neither.
type mode uint8

const (
	exact mode = iota // they are equal to nothing
	apart             // they do not count
)

// equal reports whether two values of p are deeply equal, bit by bit. Only the
// places of slices, maps and targets of pointers do not count.
func equal(a, b place, p *plan, m mode) bool {
	if a == b {
		return true
	}
	for i := range p.fields {
		f := &p.fields[i]
		if !equalField(at(a, f.offset), at(b, f.offset), f, m) {
			return false
		}
	}
	return true
}

func equalField(a, b place, f *field, m mode) bool {
	switch f.kind {
	case raw, instant:
		return equalBytes(a, b, f.size)
	case text:
		return *textAt(a) == *textAt(b)
	case list:
		x, y := listAt(a), listAt(b)
		return x.len == y.len && (x.data == nil) == (y.data == nil) && equalElements(x.data, y.data, x.len, f.to, m)
	case pointer:
		x, y := *pointerAt(a), *pointerAt(b)
		return x == y || x != nil && y != nil && equal(x, y, f.to, m)
	case dynamic:
		return equalAny(*anyAt(a), *anyAt(b))
	case dynamicMap:
		return equalContent(*mapAt[any](a), *mapAt[any](b))
	case lazy:
		return m == apart
	case opaque:
		return zero(a, f.size) && zero(b, f.size) ||
			m == apart && alike(reflect.NewAt(f.typ, a).Elem(), reflect.NewAt(f.typ, b).Elem())
	default:
		return equalMaps(*pointerAt(a), *pointerAt(b), f.kind, m)
	}
}

func equalBytes(a, b place, size uintptr) bool {
	return bytes.Equal(bytesAt(a, size), bytesAt(b, size))
}

func zero(p place, size uintptr) bool {
	return !slices.ContainsFunc(bytesAt(p, size), func(b byte) bool { return b != 0 })
}

func equalElements(a, b place, length int, elem *plan, m mode) bool {
	if a == b {
		return true
	}
	if elem.plain {
		return equalBytes(a, b, uintptr(length)*elem.size)
	}
	for n := range uintptr(length) {
		if !equal(at(a, n*elem.size), at(b, n*elem.size), elem, m) {
			return false
		}
	}
	return true
}

func equalMaps(a, b place, k kind, m mode) bool {
	switch {
	case a == b:
		return true
	case a == nil || b == nil || length(a) != length(b):
		return false
	}
	switch k {
	case stringMap:
		return maps.Equal(mapOf[string](a), mapOf[string](b))
	case bytesMap:
		return maps.EqualFunc(mapOf[[]byte](a), mapOf[[]byte](b), equalData)
	default:
		return maps.EqualFunc(mapOf[resource.Quantity](a), mapOf[resource.Quantity](b), func(x, y resource.Quantity) bool {
			// Digits beyond 64 bits are in different places. Cmp has copies of both to write to.
			return x == y || m == apart && x.Format == y.Format && x.Cmp(y) == 0
		})
	}
}

// alike compares values of which there is no plan: maps of other types, whose
// values are compared as if they were in lists.
func alike(a, b reflect.Value) bool {
	if a.Kind() != reflect.Map || a.IsNil() != b.IsNil() || a.Len() != b.Len() {
		return false
	}
	elem := a.Type().Elem()
	x, y := reflect.New(elem), reflect.New(elem)
	for entries := a.MapRange(); entries.Next(); {
		other := b.MapIndex(entries.Key())
		if !other.IsValid() {
			return false
		}
		x.Elem().SetIterValue(entries)
		y.Elem().Set(other)
		if !equal(x.UnsafePointer(), y.UnsafePointer(), planOf(elem), apart) {
			return false
		}
	}
	return true
}

// Lazy reports whether obj, a pointer, holds a lazy value outside of maps: one
// that methods write to when they read it, as [resource.Quantity] keeps its text.
// Two objects must not have such a value in common.
func Lazy(obj any) bool {
	p, of := pointee(obj)
	return of != nil && of.lazyAt(p)
}

// lazyAt reports whether the value at p is lazy or points to one that is.
func (of *plan) lazyAt(p place) bool {
	if of.lazy || !of.holds {
		return of.lazy
	}
	for n := range of.fields {
		switch f := &of.fields[n]; {
		case f.to == nil || !f.to.holds:
		case f.kind == pointer:
			if to := *pointerAt(at(p, f.offset)); to != nil && f.to.lazyAt(to) {
				return true
			}
		default:
			h := listAt(at(p, f.offset))
			for i := range uintptr(h.len) {
				if f.to.lazyAt(at(h.data, i*f.to.size)) {
					return true
				}
			}
		}
	}
	return false
}
