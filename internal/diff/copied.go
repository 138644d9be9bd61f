package diff

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// CheckCopy returns an error if copied is not a deep copy of original. copied
// is the result of the method DeepCopyObject of original. CheckCopy returns nil
// without a comparison for unstructured objects, and if the two values are not
// pointers of one type. For types that cannot be compared in memory, it
// compares only the JSON of the objects, and finds no shared members.
//
// The error names the first member that the copy lacks or changes, or that both
// objects share. A method that forgets or shares a member was written by hand,
// or was generated before the Go type got the member. An edit of the copy would
// then remove the member from the server's object, or change the original.
func CheckCopy(original, copied any) error {
	if _, ok := original.(*unstructured.Unstructured); ok {
		return nil // its method belongs to apimachinery
	}
	a, b := reflect.ValueOf(original), reflect.ValueOf(copied)
	if a.Kind() != reflect.Pointer || a.Type() != b.Type() {
		return nil
	}
	if a.Pointer() == b.Pointer() {
		return errors.New("the object's DeepCopyObject method returns the object itself, not a copy")
	}
	n := planOf(a.Type().Elem())
	if n == nil {
		return checkEncoded(original, copied)
	}
	var c comparer
	path, fault := c.copyFault(n, a.UnsafePointer(), b.UnsafePointer())
	switch {
	case c.err != nil:
		return c.err
	case fault != "":
		return fmt.Errorf("the object's DeepCopyObject method %s %s: generate the method again, or correct it", fault, path)
	default:
		return nil
	}
}

// checkEncoded is CheckCopy for types without a plan. It finds neither members
// that both objects share, nor members that only the copy has.
func checkEncoded(original, copied any) error {
	a, err := treeOf(original)
	if err != nil {
		return err
	}
	b, err := treeOf(copied)
	if err != nil {
		return err
	}
	for name, value := range a {
		if !reflect.DeepEqual(value, b[name]) {
			return fmt.Errorf("the object's DeepCopyObject method changes %s: generate the method again, or correct it", name)
		}
	}
	return nil
}

const (
	differs = "changes"
	shares  = "does not copy"
)

// copyFault compares a value with its copy. It returns the path of the first
// member that is not a copy, and what is wrong with it, or two empty strings.
func (c *comparer) copyFault(n *node, a, b place) (path, fault string) {
	switch n.kind {
	case kindPointer:
		x, y := *(*place)(a), *(*place)(b)
		if x != nil && y != nil {
			return c.referredFault(n.elem, x, y)
		}
	case kindStruct:
		return c.membersFault(n, a, b)
	case kindSlice:
		return c.elementsFault(n, (*slice)(a), (*slice)(b))
	case kindBytes:
		if x, y := (*slice)(a), (*slice)(b); x.cap > 0 && x.data == y.data {
			return "", shares
		}
	case kindMap:
		return c.entriesFault(n, a, b)
	}
	if !c.equal(n, a, b) {
		return "", differs
	}
	return "", ""
}

func (c *comparer) referredFault(n *node, a, b place) (path, fault string) {
	if a == b {
		if n.typ.Size() == 0 {
			return "", ""
		}
		return "", shares
	}
	return c.copyFault(n, a, b)
}

func (c *comparer) membersFault(n *node, a, b place) (path, fault string) {
	for i := range n.fields {
		f := &n.fields[i]
		x, y := f.locate(a), f.locate(b)
		path, fault = c.copyFault(f.node, x, y)
		if fault == "" || fault == differs && path == "" && c.equalFields(f, x, y) {
			continue
		}
		return join(f.name, path), fault
	}
	return "", ""
}

func (c *comparer) elementsFault(n *node, a, b *slice) (path, fault string) {
	switch {
	case a.len != b.len:
		return "", differs
	case a.cap > 0 && a.data == b.data && n.elem.typ.Size() > 0:
		return "", shares
	}
	for i := range a.len {
		if path, fault = c.copyFault(n.elem, n.index(a, i), n.index(b, i)); fault != "" {
			return join(strconv.Itoa(i), path), fault
		}
	}
	return "", ""
}

// entriesFault compares two maps. It looks for shared values only where values
// can be shared.
func (c *comparer) entriesFault(n *node, a, b place) (path, fault string) {
	switch x, y := *(*place)(a), *(*place)(b); {
	case x == y && x != nil:
		return "", shares
	case !c.equal(n, a, b):
		return "", differs
	case x == nil || n.elem.flat() && n.elem.kind != kindBytes && n.elem.kind != kindPointer:
		return "", ""
	}
	values, copies := n.value(a), n.value(b)
	x, y := reflect.New(n.elem.typ), reflect.New(n.elem.typ)
	for entries := values.MapRange(); entries.Next(); {
		x.Elem().Set(entries.Value())
		y.Elem().Set(copies.MapIndex(entries.Key()))
		if path, fault = c.copyFault(n.elem, x.UnsafePointer(), y.UnsafePointer()); fault != "" {
			return join(entries.Key().String(), path), fault
		}
	}
	return "", ""
}

func join(name, path string) string {
	if path == "" {
		return name
	}
	return name + "." + path
}
