package share

import (
	"flag"
	"reflect"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Copy is a deep copy of an object, in memory that an earlier Copy has had.
//
// It belongs to one goroutine.
type Copy struct {
	obj   any
	at    unsafe.Pointer
	plan  *plan
	parts []piece // what the copy consists of, in the order of the walk, then spare ones
	used  int
	seen  int // by Equal, of parts
}

// A piece is memory that belongs to a Copy: an array of values of plan, or a copied map.
type piece struct {
	at     unsafe.Pointer
	plan   *plan // nil for maps
	length int
	kind   kind
}

const (
	lookahead = 4       // spare pieces that are looked at for one of the right shape
	mostSpare = 1 << 12 // pieces that are kept
)

// poolOf returns the memory of copies that have been let go: nil if values of
// the plan may not be copied.
func poolOf(p *plan) *sync.Pool {
	p.copyable.Do(func() {
		if p.open(map[*plan]bool{}) {
			p.copies = &sync.Pool{}
		}
	})
	return p.copies
}

// open tells whether no value within has hidden fields.
func (p *plan) open(seen map[*plan]bool) bool {
	seen[p] = true
	for n := range p.fields {
		if f := &p.fields[n]; f.hidden || f.to != nil && !seen[f.to] && !f.to.open(seen) {
			return false
		}
	}
	return true
}

// CopyOf returns a deep copy of obj, a pointer to a struct. It is nil if there
// is something in obj that only its type knows how to copy: unexported pointers,
// interfaces, unusual maps. If obj is an API object, the copy has no managed
// fields.
//
// What an edit of the copy puts into it is never written to by later copies, nor
// are objects that obj shares memory with.
func CopyOf(obj any) *Copy {
	from, p := pointee(obj)
	if p == nil {
		return nil
	}
	pool := poolOf(p)
	if pool == nil {
		return nil
	}
	c, ok := pool.Get().(*Copy)
	if !ok {
		fresh := reflect.New(p.typ)
		c = &Copy{obj: fresh.Interface(), at: fresh.UnsafePointer(), plan: p}
	}
	if !c.copy(c.at, from, p, p.managed()) {
		c.Release()
		return nil
	}
	return c
}

// managed is the offset of the managed fields of an object.
func (p *plan) managed() uintptr {
	if p.meta < 0 {
		return everything
	}
	return uintptr(p.meta) + unsafe.Offsetof(metav1.ObjectMeta{}.ManagedFields)
}

// everything is what stands for the offset of a field to leave out if there is none.
const everything = ^uintptr(0)

// Emptied tells whether copies are emptied when they are let go: in tests, so
// that who uses one afterwards is found. Benchmarks replace it.
var Emptied = func() bool { return flag.Lookup("test.v") != nil }

// Object is the copy, of the type of the object.
func (c *Copy) Object() any { return c.obj }

// Equal tells whether the copy, of which an edit may have changed something, is
// deeply equal to obj, which it is a copy of, bit by bit.
func (c *Copy) Equal(obj any) bool {
	c.seen = 0
	x, own := (*eface)(unsafe.Pointer(&obj)), (*eface)(unsafe.Pointer(&c.obj))
	return x.typ == own.typ && x.data != nil && equal(x.data, c.at, c.plan, c)
}

// Release lets later copies have the memory of c. Nobody may use the copy, or
// any part of it, any more: see Emptied.
func (c *Copy) Release() {
	if Emptied() {
		c.empty()
	}
	c.used = 0
	if len(c.parts) > mostSpare {
		c.parts = nil
	}
	c.plan.copies.Put(c)
}

// empty drops the content of the copy.
func (c *Copy) empty() {
	for _, part := range c.parts[:c.used] {
		switch part.kind {
		case stringMap:
			(*copiedMap[string])(part.at).empty()
		case quantityMap:
			(*copiedMap[resource.Quantity])(part.at).empty()
		default:
			h := header{part.at, part.length, part.length}
			valueAt(part.plan.listAt, unsafe.Pointer(&h)).Clear()
		}
	}
	valueAt(c.plan.at, c.at).SetZero()
}

// take returns memory of that shape which nobody else uses. Its content is that
// of an earlier copy.
func (c *Copy) take(k kind, p *plan, length int) unsafe.Pointer {
	for n := c.used; n < min(len(c.parts), c.used+lookahead); n++ {
		if part := &c.parts[n]; part.plan == p && part.length == length && part.kind == k {
			at := part.at
			if n > c.used {
				c.parts[c.used], c.parts[n] = c.parts[n], c.parts[c.used]
			}
			c.used++
			return at
		}
	}
	fresh := piece{plan: p, length: length, kind: k}
	switch k {
	case stringMap:
		fresh.at = unsafe.Pointer(&copiedMap[string]{own: map[string]string{}})
	case quantityMap:
		fresh.at = unsafe.Pointer(&copiedMap[resource.Quantity]{own: map[string]resource.Quantity{}})
	default:
		fresh.at = reflect.MakeSlice(p.list, length, length).UnsafePointer()
	}
	c.parts = append(c.parts, fresh)
	last := len(c.parts) - 1
	c.parts[c.used], c.parts[last] = c.parts[last], c.parts[c.used]
	c.used++
	return fresh.at
}

// copy makes the value at to one that is equal to that at from, but for the list
// at the offset without. It fails if it does not understand the value.
func (c *Copy) copy(to, from unsafe.Pointer, p *plan, without uintptr) bool {
	valueAt(p.at, to).Set(valueAt(p.at, from))
	return c.deepen(to, from, p, without)
}

// valueAt is the value at at, whose type is that of a pointer word.
func valueAt(word, at unsafe.Pointer) reflect.Value {
	e := eface{word, at}
	return reflect.ValueOf(*(*any)(unsafe.Pointer(&e))).Elem()
}

// deepen copies what the value at from points to, for that at to, which has the
// same words.
func (c *Copy) deepen(to, from unsafe.Pointer, p *plan, without uintptr) bool {
	for n := range p.deep {
		f := &p.deep[n]
		if *(*uintptr)(unsafe.Add(from, f.offset)) == 0 { // nil, of whatever kind
			continue
		}
		if f.offset == without {
			*(*header)(unsafe.Add(to, f.offset)) = header{}
		} else if !c.copyField(unsafe.Add(to, f.offset), unsafe.Add(from, f.offset), f) {
			return false
		}
	}
	return true
}

// copyField copies what a field that is not nil points to.
func (c *Copy) copyField(to, from unsafe.Pointer, f *field) bool {
	switch f.kind {
	case list:
		return c.copyList((*header)(to), (*header)(from), f.to)
	case pointer:
		at := c.take(pointer, f.to, 1)
		*(*unsafe.Pointer)(to) = at
		return c.copy(at, *(*unsafe.Pointer)(from), f.to, everything)
	case stringMap, bytesMap, quantityMap:
		c.copyMap(to, from, f.kind)
		return true
	default: // unstructured, or not understood
		return false
	}
}

func (c *Copy) copyList(to, from *header, elem *plan) bool {
	if from.len == 0 { // empty is not nil; nothing can be appended in place
		*to = header{data: unsafe.Pointer(&nothing)}
		return true
	}
	*to = header{c.take(list, elem, from.len), from.len, from.len}
	switch {
	case elem.plain:
		size := uintptr(from.len) * elem.size
		copy(unsafe.Slice((*byte)(to.data), size), unsafe.Slice((*byte)(from.data), size))
		return true
	case elem.texts:
		copy(*(*[]string)(unsafe.Pointer(to)), *(*[]string)(unsafe.Pointer(from)))
		return true
	}
	reflect.Copy(valueAt(elem.listAt, unsafe.Pointer(to)), valueAt(elem.listAt, unsafe.Pointer(from)))
	if elem.flat {
		return true
	}
	for n := range uintptr(from.len) {
		if !c.deepen(unsafe.Add(to.data, n*elem.size), unsafe.Add(from.data, n*elem.size), elem, everything) {
			return false
		}
	}
	return true
}

// nothing is where empty slices point to.
var nothing struct{}
