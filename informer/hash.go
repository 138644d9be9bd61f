package informer

import (
	"hash/maphash"
	"math/bits"
	"reflect"
	"unsafe"
)

// A hasher hashes values of one type without moving them to the heap, as
// maphash.Comparable does to a value whose type is a type parameter.
type hasher[V comparable] struct {
	seed  maphash.Seed
	parts []hashed // nil for types that only maphash.Comparable knows how to hash
}

// hashed is a part of a value: a string, or bytes without padding, floats,
// interfaces.
type hashed struct {
	offset, size uintptr // a string if size is 0
}

func newHasher[V comparable]() hasher[V] {
	parts, ok := partsOf(reflect.TypeFor[V](), 0)
	if !ok {
		parts = nil
	}
	return hasher[V]{maphash.MakeSeed(), parts}
}

func partsOf(t reflect.Type, offset uintptr) (parts []hashed, ok bool) {
	switch t.Kind() {
	case reflect.String:
		return []hashed{{offset, 0}}, true
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return []hashed{{offset, t.Size()}}, true
	case reflect.Array:
		for n := range t.Len() {
			more, ok := partsOf(t.Elem(), offset+uintptr(n)*t.Elem().Size())
			if !ok {
				return nil, false
			}
			parts = append(parts, more...)
		}
		return parts, true
	case reflect.Struct:
		for field := range t.Fields() {
			more, ok := partsOf(field.Type, offset+field.Offset)
			if !ok || field.Name == "_" {
				return nil, false
			}
			parts = append(parts, more...)
		}
		return parts, true
	default:
		return nil, false
	}
}

func (h *hasher[V]) hash(value V) uint64 {
	if h.parts == nil {
		return hashAny(h.seed, value)
	}
	var sum uint64
	for _, part := range h.parts {
		at := unsafe.Add(unsafe.Pointer(&value), part.offset)
		var next uint64
		if part.size == 0 {
			next = maphash.String(h.seed, *(*string)(at))
		} else {
			next = maphash.Bytes(h.seed, unsafe.Slice((*byte)(at), part.size))
		}
		sum = bits.RotateLeft64(sum, 23)*0x9e3779b97f4a7c15 ^ next
	}
	return sum
}

// hashAny stands alone because its value moves to the heap.
//
//go:noinline
func hashAny[V comparable](seed maphash.Seed, value V) uint64 {
	return maphash.Comparable(seed, value)
}
