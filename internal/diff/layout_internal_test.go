package diff

import (
	"reflect"
	"testing"

	"github.com/onsi/gomega"
)

// TestLayout checks the assumptions in node.go, in the same order.
func TestLayout(t *testing.T) {
	g := gomega.NewWithT(t)
	type pair struct {
		A int8
		B string
	}
	type all struct {
		List    []pair
		Pointer *pair
		Map     map[string]string
		Pair    pair
	}
	n := planOf(reflect.TypeFor[all]())
	of := func(v *all, name string) (*node, place) { f := n.member(name); return f.node, f.locate(place(v)) }
	v, empty := &all{[]pair{{1, "one"}, {2, "two"}}, &pair{3, "three"}, map[string]string{"a": "b"}, pair{4, "four"}}, &all{}

	// Fields and elements are where package reflect says.
	pairs, at := of(v, "Pair")
	g.Expect(*(*string)(pairs.member("B").locate(at))).To(gomega.Equal("four"))
	lists, at := of(v, "List")
	list := (*slice)(at)
	g.Expect(lists.pointer(at)).To(gomega.Equal(&v.List))
	g.Expect(lists.index(list, 1)).To(gomega.Equal(place(&v.List[1])))
	g.Expect(lists.elem.value(lists.index(list, 1)).Interface()).To(gomega.Equal(pair{2, "two"}))

	// A slice is a pointer, a length and a capacity.
	spare := make([]pair, 1, 3)
	g.Expect(*(*slice)(place(&spare))).To(gomega.Equal(slice{data: place(&spare[0]), len: 1, cap: 3}))
	g.Expect(reflect.TypeFor[slice]().Size()).To(gomega.Equal(reflect.TypeFor[[]pair]().Size()))

	// A pointer and a map are one word, nil if it is zero.
	for _, name := range []string{"List", "Pointer", "Map"} {
		n, at := of(v, name)
		g.Expect([]bool{n.null(at), n.empty(at)}).To(gomega.HaveEach(false), name)
		n, at = of(empty, name)
		g.Expect([]bool{n.null(at), n.empty(at)}).To(gomega.HaveEach(true), name)
	}
	_, at = of(v, "Pointer")
	g.Expect(*(*place)(at)).To(gomega.Equal(place(v.Pointer)))
	_, at = of(v, "Map")
	g.Expect(*(*place)(at)).To(gomega.Equal(place(reflect.ValueOf(v.Map).UnsafePointer())))

	// A copy has exactly the same bytes, and a different value does not.
	copied, other := v.Pair, pair{4, "five"}
	g.Expect(pairs.bytes(place(&copied))).To(gomega.Equal(pairs.bytes(place(&v.Pair))))
	g.Expect(pairs.bytes(place(&copied))).To(gomega.HaveLen(int(reflect.TypeFor[pair]().Size())))
	g.Expect(pairs.bytes(place(&other))).NotTo(gomega.Equal(pairs.bytes(place(&v.Pair))))
}
