package intern

import (
	"reflect"
	"unsafe"
)

// Everything that this package assumes about how Go lays out memory is in this
// file, the only one that imports unsafe, and [TestLayout] fails when an
// assumption breaks:
//
//   - An interface is two words: its type, then a pointer to its value. If the
//     value is a pointer or a map, the second word is that value itself.
//   - A slice is a pointer, a length and a capacity; a string begins with a
//     pointer; a map is one pointer.
//   - The places of fields are what package reflect says, and memory does not
//     move. A weak pointer may point into the middle of an allocation.

// A place is the address of a value. The plan that comes with it has its type.
type place = unsafe.Pointer

// eface is how an interface lies in memory.
type eface struct{ typ, data place }

// header is how a slice lies in memory.
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

// at returns the place that is n bytes behind p: nil if p is nil.
func at(p place, offset uintptr) place {
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
func bytesAt(p place, size uintptr) []byte { return unsafe.Slice((*byte)(p), size) }
func mapOf[V any](m place) map[string]V    { return *(*map[string]V)(unsafe.Pointer(&m)) }
func placeOf[V any](m map[string]V) place  { return *(*place)(unsafe.Pointer(&m)) }
func placeOfText(t string) place           { return place(unsafe.StringData(t)) }
func placeOfList[E any](l []E) place       { return place(unsafe.SliceData(l)) }
func placeOfValue[T any](v *T) place       { return place(v) }
func textOf(p place, length int) string    { return unsafe.String((*byte)(p), length) }
func byteAt(p place) *byte                 { return (*byte)(p) }

// length is the length of a map, whatever its values are.
func length(m place) int { return len(mapOf[string](m)) }

// dataOf returns the content of the interface v: a pointer, a map, or the place of a value.
func dataOf(v any) place { return (*eface)(unsafe.Pointer(&v)).data }

// withData returns an interface of v's type that holds data instead.
func withData(v any, data place) any {
	(*eface)(unsafe.Pointer(&v)).data = data
	return v
}

// pointee returns where obj, a pointer, points to and the plan of that: nil if
// obj is nil or something else.
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
