package intern

import (
	"bytes"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Alike reports whether two pointers of one type point to values that are
// deeply equal. Floating-point numbers are equal only if their bits are.
// Quantities in maps are equal if their amounts and formats are.
//
// Alike ignores lazy values, such as Quantities outside of maps, because their
// methods write to them (see [Lazy]). Reading them here would be a data race
// with other goroutines that read the objects. Alike may return false for types
// that this package does not understand.
func Alike(a, b any) bool {
	x, p := pointee(a)
	y, q := pointee(b)
	return p != nil && p == q && equal(x, y, p, ignoreLazy)
}

// A mode says how lazy values (see [Lazy]) are compared. They are not read in
// any mode.
type mode uint8

const (
	exact      mode = iota // values that contain a lazy value are never equal
	ignoreLazy             // lazy values are left out of the comparison
)

// equal reports whether two values of type p are deeply equal, bit by bit. It
// compares slices, maps and the targets of pointers by their contents and not
// by their addresses.
func equal(a, b place, p *plan, m mode) bool {
	if a == b {
		return true
	}
	if p.cover != nil {
		return equalWords(a, b, p, m)
	}
	for i := range p.fields {
		f := &p.fields[i]
		if !equalField(offsetBy(a, f.offset), offsetBy(b, f.offset), f, m) {
			return false
		}
	}
	return true
}

// equalWords is equal for a plan with a cover. It looks only at the few fields
// that have different words: most fields of most objects are zero.
func equalWords(a, b place, p *plan, m mode) bool {
	x, y := wordsAt(a, len(p.cover)), wordsAt(b, len(p.cover))
	next := 0 // the first field that was not compared
	for n, word := range x {
		if word == y[n] {
			continue
		}
		next = max(next, int(p.cover[n]))
		for ; next < len(p.fields) && p.fields[next].offset < uintptr(n+1)*wordSize; next++ {
			f := &p.fields[next]
			if !equalField(offsetBy(a, f.offset), offsetBy(b, f.offset), f, m) {
				return false
			}
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
		return x.len == y.len && (x.data == nil) == (y.data == nil) && equalElements(x.data, y.data, x.len, f.elem, m)
	case pointer:
		x, y := *pointerAt(a), *pointerAt(b)
		return x == y || x != nil && y != nil && equal(x, y, f.elem, m)
	case dynamic:
		return equalAny(*anyAt(a), *anyAt(b))
	case dynamicMap:
		return equalContent(*mapAt[any](a), *mapAt[any](b))
	case lazy:
		return m == ignoreLazy
	case opaque:
		return zero(a, f.size) && zero(b, f.size) ||
			m == ignoreLazy && alike(reflect.NewAt(f.elem.list.Elem(), a).Elem(), reflect.NewAt(f.elem.list.Elem(), b).Elem())
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
		if !equal(offsetBy(a, n*elem.size), offsetBy(b, n*elem.size), elem, m) {
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
			// A number of more than 64 bits has its digits behind a pointer, so
			// equal numbers may differ in memory. Cmp may write to its
			// arguments, which are copies here.
			return x == y || m == ignoreLazy && x.Format == y.Format && x.Cmp(y) == 0
		})
	}
}

// alike reports whether a and b, two values of a type that has no plan, are
// equal maps. It leaves lazy values out of the comparison. It returns false for
// values that are not maps.
func alike(a, b reflect.Value) bool {
	if a.Kind() != reflect.Map || a.IsNil() != b.IsNil() || a.Len() != b.Len() {
		return false
	}
	elem := a.Type().Elem()
	x, y := reflect.New(elem), reflect.New(elem)
	for entries := a.MapRange(); entries.Next(); {
		counterpart := b.MapIndex(entries.Key())
		if !counterpart.IsValid() {
			return false
		}
		x.Elem().SetIterValue(entries)
		y.Elem().Set(counterpart)
		if !equal(x.UnsafePointer(), y.UnsafePointer(), planOf(elem), ignoreLazy) {
			return false
		}
	}
	return true
}

// Lazy reports whether obj, a pointer, holds a lazy value outside of maps. A
// value is lazy if its methods write to it even when they only read it. For
// example, a [resource.Quantity] caches its text. Two objects must not share
// such a value.
func Lazy(obj any) bool {
	p, typ := pointee(obj)
	return typ != nil && typ.lazyAt(p)
}

// lazyAt reports whether the value at p is lazy or points to a lazy value.
func (typ *plan) lazyAt(p place) bool {
	if typ.lazy || !typ.holds {
		return typ.lazy
	}
	for n := range typ.fields {
		switch f := &typ.fields[n]; {
		case f.elem == nil || !f.elem.holds:
		case f.kind == pointer:
			if target := *pointerAt(offsetBy(p, f.offset)); target != nil && f.elem.lazyAt(target) {
				return true
			}
		default:
			h := listAt(offsetBy(p, f.offset))
			for i := range uintptr(h.len) {
				if f.elem.lazyAt(offsetBy(h.data, i*f.elem.size)) {
					return true
				}
			}
		}
	}
	return false
}
