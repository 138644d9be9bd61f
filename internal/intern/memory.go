package intern

import (
	"reflect"
	"unsafe"
)

// This file has all assumptions of the package about how Go lays out memory,
// and is the only one that imports unsafe. [TestLayout] fails when an
// assumption breaks:
//
//   - An interface is two words: its type, then a pointer to its value. If the
//     value is a pointer or a map, the second word is the value itself.
//   - A slice is a pointer, a length and a capacity; a string begins with a
//     pointer; a map is one pointer.
//   - Package reflect reports the offsets of fields, and memory does not move.
//     A weak pointer may point into the middle of an allocation.

// A place is the address of a value, whose type is known from the plan that is
// passed with it.
type place = unsafe.Pointer

// eface is the memory layout of an empty interface.
type eface struct{ typ, data place }

// header is the memory layout of a slice.
type header struct {
	data     place
	len, cap int
}

// The sizes of values of these kinds, without the memory that they point to.
const (
	wordSize = unsafe.Sizeof(uintptr(0))
	textSize = unsafe.Sizeof("")
	listSize = unsafe.Sizeof(header{})
	anySize  = unsafe.Sizeof(eface{})
)

// offsetBy returns the place that is offset bytes after p, or nil if p is nil.
func offsetBy(p place, offset uintptr) place {
	if p == nil {
		return nil
	}
	return unsafe.Add(p, offset)
}

func textAt(p place) *string               { return (*string)(p) }
func listAt(p place) *header               { return (*header)(p) }
func pointerAt(p place) *place             { return (*place)(p) }
func anyAt(p place) *any                   { return (*any)(p) }
func mapAt[V any](p place) *map[string]V   { return (*map[string]V)(p) }
func wordsAt(p place, count int) []uintptr { return unsafe.Slice((*uintptr)(p), count) }
func bytesAt(p place, size uintptr) []byte { return unsafe.Slice((*byte)(p), size) }
func mapOf[V any](m place) map[string]V    { return *(*map[string]V)(unsafe.Pointer(&m)) }
func placeOf[V any](m map[string]V) place  { return *(*place)(unsafe.Pointer(&m)) }
func placeOfText(t string) place           { return place(unsafe.StringData(t)) }
func placeOfList[E any](l []E) place       { return place(unsafe.SliceData(l)) }
func placeOfValue[T any](v *T) place       { return place(v) }
func textOf(p place, length int) string    { return unsafe.String((*byte)(p), length) }
func byteAt(p place) *byte                 { return (*byte)(p) }

// length returns the length of a map with values of any type.
func length(m place) int { return len(mapOf[string](m)) }

// dataOf returns the data word of the interface v: a pointer, a map, or the
// place of another value.
func dataOf(v any) place { return (*eface)(unsafe.Pointer(&v)).data }

// withData returns an interface of v's type with data as its data word.
func withData(v any, data place) any {
	(*eface)(unsafe.Pointer(&v)).data = data
	return v
}

// pointee returns the place that obj points to, and the plan for it. It returns
// nil if obj is not a pointer, is a nil pointer, or points to a type of size 0.
func pointee(obj any) (place, *plan) {
	t := reflect.TypeOf(obj)
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().Size() == 0 || dataOf(obj) == nil {
		return nil, nil
	}
	return dataOf(obj), planOf(t.Elem())
}

// clipped returns a copy of the list h without spare capacity.
func clipped(h *header, elem *plan) header {
	fresh := reflect.MakeSlice(elem.list, h.len, h.len)
	reflect.Copy(fresh, reflect.NewAt(elem.list, place(h)).Elem())
	return header{fresh.UnsafePointer(), h.len, h.len}
}
