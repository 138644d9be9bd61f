package diff

import (
	"bytes"
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// comparer compares values by their JSON, and avoids encoding them where it
// can. It keeps the first error.
type comparer struct {
	style Style
	err   error
}

// fail records err, unless err is nil or an earlier error is recorded.
func (c *comparer) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// equal reports whether both values have the same JSON. In the strategic style
// an empty list or map equals a missing one, because the server's storage does
// not distinguish them either.
func (c *comparer) equal(n *node, a, b place) bool {
	switch n.kind {
	case kindString:
		return *(*string)(a) == *(*string)(b)
	case kindScalar, kindInt:
		return bytes.Equal(n.bytes(a), n.bytes(b))
	case kindPointer:
		pa, pb := *(*place)(a), *(*place)(b)
		if pa == nil || pb == nil {
			return pa == pb || c.null(n, a) && c.null(n, b)
		}
		return pa == pb || c.equal(n.elem, pa, pb)
	case kindStruct:
		return c.equalStructs(n, a, b)
	case kindSlice:
		return c.equalSlices(n, (*slice)(a), (*slice)(b))
	case kindBytes:
		return bytes.Equal(*(*[]byte)(a), *(*[]byte)(b)) && (c.style == Strategic || n.null(a) == n.null(b))
	case kindMap:
		return c.equalMaps(n, a, b)
	case kindAny:
		return c.equalAny(n.value(a).Interface(), n.value(b).Interface())
	default:
		return c.equalOpaque(n, a, b)
	}
}

func (c *comparer) equalStructs(n *node, a, b place) bool {
	if bytes.Equal(n.bytes(a), n.bytes(b)) { // most structs of a deep copy: equal memory has equal JSON
		return true
	}
	for i := range n.fields {
		f := &n.fields[i]
		if !c.equalFields(f, f.locate(a), f.locate(b)) {
			return false
		}
	}
	return true
}

// equalFields reports whether two members are equal. The JSON may omit either
// of them. A member that is null equals an omitted one. For example, a pointer
// to a zero time equals a nil pointer.
func (c *comparer) equalFields(f *field, a, b place) bool {
	if !c.equal(f.node, a, b) {
		noA, noB := f.omitted(a), f.omitted(b)
		return noA && noB || noA && c.null(f.node, b) || noB && c.null(f.node, a)
	}
	// Values with the same JSON may be omitted on one side only. For example,
	return f.node.kind != kindOpaque && !f.omitZero || f.omitted(a) == f.omitted(b) || c.null(f.node, a)
}

// null reports whether the JSON of the value at p is null.
func (c *comparer) null(n *node, p place) bool {
	switch {
	case n.kind == kindOpaque:
		return string(c.opaque(n, p)) == "null"
	case n.null(p):
		return true
	case n.kind == kindPointer:
		return c.null(n.elem, *(*place)(p))
	default:
		return false
	}
}

func (c *comparer) equalSlices(n *node, a, b *slice) bool {
	if a.len != b.len || c.style == JSON && (a.data == nil) != (b.data == nil) {
		return false
	}
	if a.data == b.data {
		return true
	}
	for i := range a.len {
		if !c.equal(n.elem, n.index(a, i), n.index(b, i)) {
			return false
		}
	}
	return true
}

func (c *comparer) equalMaps(n *node, a, b place) bool {
	ma, mb := *(*place)(a), *(*place)(b)
	switch {
	case ma == mb:
		return true
	case c.style == JSON && (ma == nil || mb == nil):
		return false
	case n.typ == reflect.TypeFor[map[string]string]():
		return maps.Equal(*(*map[string]string)(a), *(*map[string]string)(b))
	case n.typ == reflect.TypeFor[corev1.ResourceList]():
		return maps.EqualFunc(*(*corev1.ResourceList)(a), *(*corev1.ResourceList)(b), sameQuantity)
	}
	va, vb := n.value(a), n.value(b)
	if va.Len() != vb.Len() {
		return false
	}
	ea, eb := reflect.New(n.elem.typ), reflect.New(n.elem.typ)
	for entries := va.MapRange(); entries.Next(); {
		counterpart := vb.MapIndex(entries.Key())
		if !counterpart.IsValid() {
			return false
		}
		ea.Elem().Set(entries.Value())
		eb.Elem().Set(counterpart)
		if !c.equal(n.elem, ea.UnsafePointer(), eb.UnsafePointer()) {
			return false
		}
	}
	return true
}

// sameQuantity reports whether two quantities are encoded in the same way,
// since one value can be written in several formats. For example, 1Ki and 1024
// are the same value but are written differently.
func sameQuantity(a, b resource.Quantity) bool {
	if a == b {
		return true
	}
	x, errA := a.MarshalJSON()
	y, errB := b.MarshalJSON()
	return errA == nil && errB == nil && bytes.Equal(x, y)
}
