package diff

import (
	"reflect"
	"unsafe"
)

// This is the only file of the package that imports unsafe. It makes these
// assumptions about Go's memory, in the order of [TestLayout]:
//
//   - Fields and the elements of a list lie where package reflect reports them.
//   - A slice is a pointer, a length and a capacity. A nil slice has a nil
//     pointer.
//   - A pointer and a map are one word, which is zero if it is nil. Equal words
//     are the same pointer or map.
//   - Equal bytes are equal values. The reverse does not hold, because values
//     contain pointers and padding.
//
// It assumes of its callers that each place holds a value of the type of the
// node that is passed with it, and that the value does not change during the
// call.

// place is the address of a value, whose type is known from the node that is
// passed with it.
type place = unsafe.Pointer

// kind is the kind of a Go type. It decides how a node reads the memory of a
// value.
type kind uint8

const (
	kindOpaque kind = iota // known only by its JSON encoding
	kindScalar             // bool, unsigned, float
	kindInt
	kindString
	kindBytes
	kindPointer
	kindSlice
	kindMap
	kindStruct
	kindAny
)

// node is the compiled plan of one Go type. Plans are immutable once they are
// published.
type node struct {
	kind   kind
	typ    reflect.Type
	elem   *node   // the element of a pointer, slice or map
	fields []field // the fields of a struct
	isMeta bool    // whether the type is metav1.ObjectMeta
	// respells says that this is a map whose Go type may write a key in a
	// different form than the server has. For example, a netip.Prefix shortens
	// FD00:0::/64.
	respells bool
	// reshapes says that the server may have a value of another shape than the
	// Go type writes. For example, it may have a string that the type reads as
	// a struct.
	reshapes bool
	// isRaw says that the type stores JSON as it was written, in a field at the
	// offset rawAt.
	isRaw bool
	rawAt uintptr
}

// field is one member of a struct's JSON object.
type field struct {
	name      string
	offset    uintptr
	depth     int
	node      *node
	omitEmpty bool
	omitZero  bool

	// The fields below are from the patch tags, for strategic patches.

	merge    bool
	retain   bool
	replace  bool
	mergeKey string
	// byKey says that a patch in any style empties this map by removing its
	// keys one by one.
	byKey bool
}

func (f *field) locate(p place) place { return unsafe.Add(p, f.offset) }

// member finds a field by its JSON name.
func (n *node) member(name string) *field {
	for i := range n.fields {
		if n.fields[i].name == name {
			return &n.fields[i]
		}
	}
	return nil
}

// slice is the memory of a Go slice of any type.
type slice struct {
	data place
	len  int
	cap  int
}

func (n *node) index(s *slice, i int) place {
	return unsafe.Add(s.data, uintptr(i)*n.elem.typ.Size())
}

// omitted reports whether encoding/json omits the member from its object.
func (f *field) omitted(p place) bool {
	return f.omitEmpty && f.node.empty(p) || f.omitZero && f.node.zero(p)
}

// empty reports whether omitempty omits the value at p.
func (n *node) empty(p place) bool {
	switch n.kind {
	case kindString:
		return len(*(*string)(p)) == 0
	case kindPointer:
		return *(*place)(p) == nil
	case kindSlice, kindBytes:
		return (*slice)(p).len == 0
	}
	switch v := n.value(p); v.Kind() {
	case reflect.Struct:
		return false
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}

// zeroer is the method that omitzero calls.
type zeroer = interface{ IsZero() bool }

// zero reports whether omitzero omits the value at p. It calls the type's
// IsZero method if the type has one. For an interface that is not nil, only a
// method of the interface type itself is called, as in encoding/json.
func (n *node) zero(p place) bool {
	v := n.value(p)
	switch {
	case v.Kind() != reflect.Pointer && v.Kind() != reflect.Interface:
		v = v.Addr()
	case v.IsNil():
		return true
	case !n.typ.Implements(reflect.TypeFor[zeroer]()):
		return false
	}
	if z, ok := reflect.TypeAssert[zeroer](v); ok {
		return z.IsZero()
	}
	return n.value(p).IsZero()
}

// value returns the memory at p as an addressable value.
func (n *node) value(p place) reflect.Value { return reflect.NewAt(n.typ, p).Elem() }

// bytes returns the memory at p.
func (n *node) bytes(p place) []byte { return unsafe.Slice((*byte)(p), n.typ.Size()) }

// pointer returns p as a pointer to the node's type.
func (n *node) pointer(p place) any { return reflect.NewAt(n.typ, p).Interface() }

// raw returns the JSON that the value at p stores as it was written, or nil.
// For example, it returns nil for a RawExtension that was made of a Go object.
// A null in the JSON of such an object is a nil pointer, which means that the
// value is missing.
func (n *node) raw(p place) []byte {
	if !n.isRaw {
		return nil
	}
	return *(*[]byte)(unsafe.Add(p, n.rawAt))
}

// null reports whether the JSON of the value at p is null. It must not be
// called for opaque kinds.
func (n *node) null(p place) bool {
	switch n.kind {
	case kindPointer, kindMap:
		return *(*place)(p) == nil
	case kindSlice, kindBytes:
		return (*slice)(p).data == nil
	case kindAny:
		return n.value(p).IsNil()
	default:
		return false
	}
}

// flat reports whether the JSON of the type is known to be neither an object
// nor a list.
func (n *node) flat() bool {
	switch n.kind {
	case kindScalar, kindInt, kindString, kindBytes:
		return true
	case kindPointer:
		return n.elem.flat()
	case kindOpaque:
		return isFlat(n.typ)
	default:
		return false
	}
}
