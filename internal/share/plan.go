package share

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A kind says how a field is hashed, compared and shared.
type kind uint8

const (
	raw         kind = iota // bytes that are what they are, without pointers
	instant                 // a time.Time: bytes that are what they are, with the pointer to its location
	text                    // a string
	list                    // a slice
	pointer                 // a pointer to a struct or a scalar
	stringMap               // a map of strings
	bytesMap                // a map of byte slices
	quantityMap             // a map of quantities
	dynamic                 // an interface that holds unstructured content
	dynamicMap              // a map of such
	dynamicText             // what an interface that holds a string points to
	dynamicList             // the same for a list of unstructured content
	opaque                  // what this package does not understand
)

// A plan tells how to walk values of one type. Structs within the type have
// been flattened into its fields.
type plan struct {
	typ    reflect.Type
	list   reflect.Type // of slices of typ
	number uint32       // from 1
	size   uintptr
	fields []field
	words  []span         // of each word, what is in it
	listAt unsafe.Pointer // how an interface says that it holds a pointer to list
	whole  bool           // words is one span, of a value that is not looked at by words
	plain  bool           // raw fields alone: bytes can be compared
	flat   bool           // nothing but strings and times is pointed to: a copy of the bytes is a deep copy
	meta   int            // where the metadata of an object is; -1 if there is none
	salt   uint64
}

type field struct {
	kind   kind
	alone  bool // never equal in two objects: not worth a look
	offset uintptr
	size   uintptr
	to     *plan        // of the elements or of what is pointed to
	typ    reflect.Type // of what is opaque
}

// plans holds the plan of every type that was ever walked. There is one of each,
// made once, and none changes any more when it is in there.
var (
	plans  sync.Map   // of reflect.Type to *plan
	making sync.Mutex // held while plans are made; guards made
	made   uint32     // plans
)

// planOf returns the plan of t.
func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	making.Lock()
	defer making.Unlock()
	c := compiler{made: map[reflect.Type]*plan{}}
	p := c.planOf(t)
	for t, p := range c.made {
		plans.Store(t, p)
	}
	return p
}

// A compiler makes the plan of a type and of all that it holds.
type compiler struct{ made map[reflect.Type]*plan }

// planOf compiles the plan of t. A type that contains itself ends at the plan
// that is being made.
func (c *compiler) planOf(t reflect.Type) *plan {
	if p, ok := c.made[t]; ok {
		return p
	}
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	made++
	p := &plan{typ: t, list: reflect.SliceOf(t), number: made, size: t.Size(), meta: -1}
	p.salt = uint64(made) * 0x9e3779b97f4a7c15
	c.made[t] = p
	c.addFields(p, t, 0)
	if t.Kind() == reflect.Struct {
		for f := range t.Fields() {
			if f.Type == metaType {
				p.meta = int(f.Offset)
			}
		}
	}
	p.plain = len(p.fields) == 0 || len(p.fields) == 1 && p.fields[0].kind == raw
	p.flat = !slices.ContainsFunc(p.fields, func(f field) bool { return f.kind > text })
	p.listAt = pointerWord(p.list)
	p.addWords()
	return p
}

// pointerWord is how an interface says that it holds a pointer to t.
func pointerWord(t reflect.Type) unsafe.Pointer {
	nothing := reflect.Zero(reflect.PointerTo(t)).Interface()
	return (*eface)(unsafe.Pointer(&nothing)).typ
}

var (
	timeType     = reflect.TypeFor[time.Time]()
	quantityType = reflect.TypeFor[resource.Quantity]()
	anyType      = reflect.TypeFor[any]()
	anyMapType   = reflect.TypeFor[map[string]any]()
	metaType     = reflect.TypeFor[metav1.ObjectMeta]()
)

func (c *compiler) addFields(p *plan, t reflect.Type, offset uintptr) {
	add := func(f field) {
		f.offset, f.size = offset, t.Size()
		if f.kind == opaque {
			f.typ = t
		}
		p.fields = append(p.fields, f)
	}
	switch t {
	case timeType:
		add(field{kind: instant})
		return
	case anyType:
		add(field{kind: dynamic})
		return
	case anyMapType:
		add(field{kind: dynamicMap})
		return
	}
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		p.addRaw(offset, t.Size())
	case reflect.String:
		add(field{kind: text})
	case reflect.Slice, reflect.Pointer:
		f := field{kind: opaque}
		if t.Elem().Size() > 0 {
			f.kind, f.to = list, c.planOf(t.Elem())
		}
		if t.Kind() == reflect.Pointer && f.to != nil {
			f.kind = pointer
		}
		add(f)
	case reflect.Map:
		add(field{kind: mapKind(t)})
	case reflect.Struct:
		c.addStruct(p, t, offset)
		if t == metaType {
			p.markAlone(offset)
		}
	case reflect.Array:
		for n := range t.Len() {
			c.addFields(p, t.Elem(), offset+uintptr(n)*t.Elem().Size())
		}
	default:
		add(field{kind: opaque})
	}
}

func (c *compiler) addStruct(p *plan, t reflect.Type, offset uintptr) {
	for f := range t.Fields() {
		own := ownsFields(t) || f.IsExported() || f.Anonymous && f.Type.Kind() == reflect.Struct
		if own || !points(f.Type) {
			c.addFields(p, f.Type, offset+f.Offset)
			continue
		}
		p.fields = append(p.fields, field{
			kind: opaque, offset: offset + f.Offset, size: f.Type.Size(), typ: f.Type,
		})
	}
}

// ownsFields tells whether the unexported fields of t are known to be plain data.
func ownsFields(t reflect.Type) bool {
	path := t.PkgPath()
	return path == "math/big" || path == "gopkg.in/inf.v0" || strings.HasPrefix(path, "k8s.io/apimachinery/")
}

// points tells whether a value of t may hold pointers.
func points(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		for f := range t.Fields() {
			if points(f.Type) {
				return true
			}
		}
		return false
	case reflect.Array:
		return t.Len() > 0 && points(t.Elem())
	default:
		return t.Kind() > reflect.Complex128
	}
}

func mapKind(t reflect.Type) kind {
	switch elem := t.Elem(); {
	case t.Key().Kind() != reflect.String:
		return opaque
	case elem.Kind() == reflect.String:
		return stringMap
	case elem.Kind() == reflect.Slice && elem.Elem().Kind() == reflect.Uint8:
		return bytesMap
	case elem == quantityType:
		return quantityMap
	default:
		return opaque
	}
}

// markAlone marks what no two objects have in common.
func (p *plan) markAlone(offset uintptr) {
	var m metav1.ObjectMeta
	for n := range p.fields {
		switch p.fields[n].offset - offset {
		case unsafe.Offsetof(m.Name), unsafe.Offsetof(m.UID), unsafe.Offsetof(m.ResourceVersion):
			p.fields[n].alone = true
		}
	}
}

// addRaw adds bytes, as a part of the bytes before if there are no others
// between them.
func (p *plan) addRaw(offset, size uintptr) {
	if n := len(p.fields); n > 0 {
		if last := &p.fields[n-1]; last.kind == raw && last.offset+last.size == offset {
			last.size += size
			return
		}
	}
	p.fields = append(p.fields, field{kind: raw, offset: offset, size: size})
}
