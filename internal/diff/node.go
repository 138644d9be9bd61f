package diff

import (
	"reflect"
	"unsafe"
)

// The only file of this package that imports unsafe. It assumes of Go's memory, in the order of [TestLayout]:
//
//   - Fields and the elements of a list lie where package reflect says.
//   - A slice is a pointer, a length and a capacity; nil has no pointer.
//   - A pointer and a map are one word, which is zero in nil; equal words are the same pointer or map.
//   - Equal bytes are equal values: never the reverse, since values have pointers and padding.
//
// And of its callers: at each place is a value of the type of the node that comes with it, and nothing moves or
// changes it meanwhile.

// place is the address of a value. The node that comes with it has its type.
type place = unsafe.Pointer

// kind selects how a node's memory is read.
type kind uint8

const (
	kindOpaque kind = iota // known only by its JSON
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

// node is the compiled plan of one Go type. Plans are immutable once they are published.
type node struct {
	kind   kind
	typ    reflect.Type
	elem   *node   // of a pointer, slice or map
	fields []field // of a struct
	isMeta bool    // metav1.ObjectMeta
}

// field is one member of a struct's JSON object.
type field struct {
	name      string
	offset    uintptr
	depth     int
	node      *node
	omitEmpty bool
	omitZero  bool

	// From the patch tags; used by strategic patches only.
	merge    bool
	retain   bool
	replace  bool
	mergeKey string
	// emptied maps lose their keys one by one, in patches of any style.
	byKey bool
}

func (f *field) at(p place) place { return unsafe.Add(p, f.offset) }

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

// omitted reports whether encoding/json leaves the member out of its object.
func (f *field) omitted(p place) bool {
	return f.omitEmpty && f.node.empty(p) || f.omitZero && f.node.zero(p)
}

// empty reports whether omitempty leaves the value at p out.
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

// zero reports whether omitzero leaves the value at p out: by the type's IsZero method, if it has
// one. The type of a value in an interface does not count.
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

// null reports whether the JSON of the memory at p is null, for all kinds but the opaque ones.
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

// flat reports whether the JSON of the node is never an object or a list.
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
