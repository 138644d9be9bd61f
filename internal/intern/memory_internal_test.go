package intern

import (
	"reflect"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/onsi/gomega"
)

// TestLayout checks the assumptions in memory.go, in the same order.
func TestLayout(t *testing.T) {
	g := gomega.NewWithT(t)
	type pair struct {
		A int32
		B string
	}

	// An interface is its type and a pointer to its value.
	value := &pair{7, "b"}
	g.Expect(dataOf(value)).To(gomega.Equal(place(value)))
	m := map[string]any{"a": 1}
	g.Expect(dataOf(m)).To(gomega.Equal(place(reflect.ValueOf(m).UnsafePointer())))
	boxed := any("text")
	g.Expect(*textAt(dataOf(boxed))).To(gomega.Equal("text"))
	g.Expect(withData(any("other"), dataOf(boxed))).To(gomega.Equal("text"))
	box := any([]any{1, "a"})
	g.Expect(*listAt(dataOf(box))).To(gomega.Equal(header{placeOfList(box.([]any)), 2, 2}))

	// A slice, a string, a map.
	slice := make([]pair, 2, 3)
	g.Expect(*listAt(place(&slice))).To(gomega.Equal(header{place(&slice[0]), 2, 3}))
	text := "text"
	g.Expect(*pointerAt(place(&text))).To(gomega.Equal(placeOfText(text)))
	g.Expect(textOf(placeOfText(text), len(text))).To(gomega.Equal(text))
	strings := map[string]string{"a": "b"}
	g.Expect(mapOf[string](placeOf(strings))).To(gomega.Equal(strings))
	g.Expect(*mapAt[string](place(&strings))).To(gomega.Equal(strings))
	g.Expect(length(placeOf(map[string]time.Time{"a": {}, "b": {}}))).To(gomega.Equal(2))
	g.Expect(length(nil)).To(gomega.BeZero())

	// Fields are where package reflect says.
	p := planOf(reflect.TypeFor[pair]())
	g.Expect(*textAt(offsetBy(place(value), p.fields[1].offset))).To(gomega.Equal("b"))
	g.Expect(uintptr(offsetBy(nil, 8))).To(gomega.BeZero())
	g.Expect([]uintptr{reflect.TypeFor[string]().Size(), reflect.TypeFor[[]int]().Size(), reflect.TypeFor[any]().Size()}).
		To(gomega.Equal([]uintptr{textSize, listSize, anySize}))

	// A list's copy has no room to spare.
	copied := clipped(listAt(place(&slice)), p)
	g.Expect([]int{copied.len, copied.cap}).To(gomega.Equal([]int{2, 2}))
	g.Expect(copied.data).NotTo(gomega.Equal(place(&slice[0])))
}

// A weak pointer into the middle of an allocation lives as long as the
// allocation.
func TestWeakPointersIntoTheMiddle(t *testing.T) {
	g := gomega.NewWithT(t)
	slice := make([]*int, 10)
	middle := weak.Make(byteAt(place(&slice[5])))
	runtime.GC()
	g.Expect(place(middle.Value())).To(gomega.Equal(place(&slice[5])))
	runtime.KeepAlive(slice)
	runtime.GC()
	runtime.GC()
	g.Expect(middle.Value()).To(gomega.BeNil())
}
