package share

import (
	"bytes"
	"reflect"
	"slices"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Equal tells whether two pointers of one type point to values that are deeply
// equal, bit by bit. It may say no where it does not understand the type.
func Equal(a, b any) bool {
	x, p := pointee(a)
	y, q := pointee(b)
	return p != nil && p == q && equal(x, y, p)
}

// pointee returns where obj, a pointer, points to and the plan of that: nil if
// obj is nil or something else.
func pointee(obj any) (unsafe.Pointer, *plan) {
	t := reflect.TypeOf(obj)
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().Size() == 0 {
		return nil, nil
	}
	at := (*eface)(unsafe.Pointer(&obj)).data
	if at == nil {
		return nil, nil
	}
	return at, planOf(t.Elem())
}

// equal tells whether two values of p are deeply equal, bit by bit. Only the
// places of slices, maps and what is pointed to do not count.
func equal(a, b unsafe.Pointer, p *plan) bool {
	if a == b {
		return true
	}
	for n := p.differs(a, b, 0); n < len(p.words); {
		fields, next := p.fieldsAt(n)
		for i := range fields {
			f := &fields[i]
			if !equalField(unsafe.Add(a, f.offset), unsafe.Add(b, f.offset), f) {
				return false
			}
		}
		n = p.differs(a, b, next)
	}
	return true
}

func equalField(a, b unsafe.Pointer, f *field) bool {
	switch f.kind {
	case raw, instant:
		return equalBytes(a, b, f.size)
	case text:
		return *(*string)(a) == *(*string)(b)
	case list:
		x, y := (*header)(a), (*header)(b)
		return x.len == y.len && (x.data == nil) == (y.data == nil) && equalElements(x.data, y.data, x.len, f.to)
	case pointer:
		x, y := *(*unsafe.Pointer)(a), *(*unsafe.Pointer)(b)
		return x == y || x != nil && y != nil && equal(x, y, f.to)
	case dynamic:
		return equalAny(*(*any)(a), *(*any)(b))
	case dynamicMap:
		x, y := *(*map[string]any)(a), *(*map[string]any)(b)
		return (x == nil) == (y == nil) && equalAnyMaps(x, y)
	case opaque:
		return zero(a, f.size) && zero(b, f.size)
	default:
		x, y := *(*unsafe.Pointer)(a), *(*unsafe.Pointer)(b)
		return equalMaps(x, y, f.kind)
	}
}

func equalBytes(a, b unsafe.Pointer, size uintptr) bool {
	switch size {
	case 1:
		return *(*uint8)(a) == *(*uint8)(b)
	case 4:
		return *(*uint32)(a) == *(*uint32)(b)
	case 8:
		return *(*uint64)(a) == *(*uint64)(b)
	}
	return bytes.Equal(unsafe.Slice((*byte)(a), size), unsafe.Slice((*byte)(b), size))
}

func zero(at unsafe.Pointer, size uintptr) bool {
	return !slices.ContainsFunc(unsafe.Slice((*byte)(at), size), func(b byte) bool { return b != 0 })
}

func equalElements(a, b unsafe.Pointer, length int, elem *plan) bool {
	if a == b {
		return true
	}
	if elem.plain {
		return equalBytes(a, b, uintptr(length)*elem.size)
	}
	if elem.flat && equalBytes(a, b, uintptr(length)*elem.size) {
		return true
	}
	for n := range length {
		if !equal(unsafe.Add(a, uintptr(n)*elem.size), unsafe.Add(b, uintptr(n)*elem.size), elem) {
			return false
		}
	}
	return true
}

func equalMaps(a, b unsafe.Pointer, k kind) bool {
	switch {
	case a == b:
		return true
	case a == nil || b == nil || length(a) != length(b):
		return false
	}
	switch k {
	case stringMap:
		return equalEntries(*(*map[string]string)(unsafe.Pointer(&a)), *(*map[string]string)(unsafe.Pointer(&b)),
			func(x, y string) bool { return x == y })
	case bytesMap:
		return equalEntries(*(*map[string][]byte)(unsafe.Pointer(&a)), *(*map[string][]byte)(unsafe.Pointer(&b)),
			func(x, y []byte) bool { return (x == nil) == (y == nil) && bytes.Equal(x, y) })
	default:
		return equalEntries(*(*map[string]resource.Quantity)(unsafe.Pointer(&a)),
			*(*map[string]resource.Quantity)(unsafe.Pointer(&b)),
			func(x, y resource.Quantity) bool { return x == y }) // as stored: 1 is not 1000m
	}
}

func equalEntries[V any](a, b map[string]V, equal func(x, y V) bool) bool {
	for key, value := range a {
		if other, ok := b[key]; !ok || !equal(value, other) {
			return false
		}
	}
	return true
}
