package intern

import (
	"math"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A kind says how a field is hashed, compared and shared.
type kind uint8

const (
	raw         kind = iota // bytes without pointers
	instant                 // an immutable value with pointers, such as a time.Time with its *Location
	text                    // a string
	list                    // a slice
	pointer                 // a pointer to a struct or a scalar
	stringMap               // a map of strings
	bytesMap                // a map of byte slices
	quantityMap             // a map of quantities
	dynamic                 // an interface that holds unstructured content
	dynamicMap              // a map of unstructured content
	dynamicText             // the target of an interface that holds a string
	dynamicList             // the target of an interface that holds a list
	object                  // a whole object
	lazy                    // a value that its own methods write to when they read it
	opaque                  // a type that this package does not understand
)

// A plan describes how to walk values of one type. The fields of nested structs
// are fields of the plan itself.
type plan struct {
	list   reflect.Type // the type of slices with elements of this type
	number uint32       // the unique number of the plan, from 1
	size   uintptr
	fields []field
	parts  []field // the fields that have parts
	// cover has a number for each word of a value: the first field that ends
	// after the start of the word. It is nil if values must not be read word by
	// word, because they have lazy or opaque fields, do not consist of whole
	// words, or have too many fields.
	cover []uint16
	plain bool // whether values are raw bytes without gaps, so that their bytes are compared
	lazy  bool // whether values are lazy or have a lazy field
	holds bool // whether values may be lazy or point to lazy values
}

type field struct {
	kind   kind
	number uint32 // the number of a field with parts: unique, even, at least 2
	offset uintptr
	size   uintptr
	// elem is the plan of the elements or of the pointer's target. For an
	// opaque value it only contains the type.
	elem *plan
}

// plans maps every type that was ever walked to its plan. A plan is made once
// and does not change after it was added.
var (
	plans      sync.Map   // maps a reflect.Type to its *plan
	plansMu    sync.Mutex // held while plans are made; guards the variables below
	planCount  uint32     // number of the last plan
	fieldCount uint32     // number of the last field with parts
)

// planOf returns the plan of t.
func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	plansMu.Lock()
	defer plansMu.Unlock()
	c := compiler{made: map[reflect.Type]*plan{}}
	p := c.planOf(t)
	c.propagate()
	for t, p := range c.made {
		plans.Store(t, p)
	}
	return p
}

var (
	bytesPlan    = planOf(reflect.TypeFor[byte]())
	quantityPlan = planInMap(quantityType)
)

// planInMap returns the plan of a lazy type for values in maps. Go has no
// pointers into maps, so methods of a value in a map can only write to a copy
// of it, and the value itself can be shared. The targets of its pointers cannot
// be shared, because a value and its copies point to the same targets.
// Therefore pointers are opaque in this plan.
func planInMap(t reflect.Type) *plan {
	plansMu.Lock()
	defer plansMu.Unlock()
	c := compiler{made: map[reflect.Type]*plan{}, inMap: true}
	return c.planOf(t)
}

// A compiler makes the plan of a type and of all types inside it.
type compiler struct {
	made  map[reflect.Type]*plan
	inMap bool // see planInMap
}

// propagate sets holds in all plans whose values may point to lazy values.
func (c *compiler) propagate() {
	for changed := true; changed; {
		changed = false
		for _, p := range c.made {
			if !p.holds && slices.ContainsFunc(p.fields, func(f field) bool {
				return f.kind == lazy || f.elem != nil && f.elem.holds
			}) {
				p.holds, changed = true, true
			}
		}
	}
}

// planOf compiles the plan of t. A type that contains itself refers to the plan
// that is being made.
func (c *compiler) planOf(t reflect.Type) *plan {
	if p, ok := c.made[t]; ok {
		return p
	}
	if p, ok := plans.Load(t); ok && !c.inMap {
		return p.(*plan)
	}
	planCount++
	p := &plan{list: reflect.SliceOf(t), number: planCount, size: t.Size()}
	c.made[t] = p
	c.addFields(p, t, 0)
	p.plain = len(p.fields) == 0 || len(p.fields) == 1 && p.fields[0].kind == raw
	p.lazy = slices.ContainsFunc(p.fields, func(f field) bool { return f.kind == lazy })
	p.addCover()
	return p
}

// addCover numbers the fields that have parts, and sets parts and cover.
func (typ *plan) addCover() {
	words := typ.size%wordSize == 0 && len(typ.fields) <= math.MaxUint16
	for _, f := range typ.fields {
		if f.kind.hasParts() {
			fieldCount += 2
			f.number = fieldCount
			typ.parts = append(typ.parts, f)
		}
		words = words && f.kind != lazy && f.kind != opaque
	}
	if !words {
		return
	}
	typ.cover = make([]uint16, typ.size/wordSize)
	next := 0
	for n := range typ.cover {
		for next < len(typ.fields) && typ.fields[next].end() <= uintptr(n)*wordSize {
			next++
		}
		typ.cover[n] = uint16(next)
	}
}

// end returns the offset of the byte after the field.
func (f *field) end() uintptr { return f.offset + f.size }

var (
	quantityType = reflect.TypeFor[resource.Quantity]()
	anyType      = reflect.TypeFor[any]()
	anyMapType   = reflect.TypeFor[map[string]any]()
)

func (c *compiler) addFields(p *plan, t reflect.Type, offset uintptr) {
	add := func(f field) {
		f.offset, f.size = offset, t.Size()
		if f.kind == opaque {
			f.elem = &plan{list: reflect.SliceOf(t)}
		}
		p.fields = append(p.fields, f)
	}
	if k, special := c.special(t); special {
		add(field{kind: k})
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
		if !c.inMap {
			f.kind, f.elem = list, c.planOf(t.Elem())
		}
		if t.Kind() == reflect.Pointer && f.elem != nil {
			f.kind = pointer
		}
		add(f)
	case reflect.Map:
		add(field{kind: mapKind(t)})
	case reflect.Struct:
		for f := range t.Fields() {
			c.addFields(p, f.Type, offset+f.Offset)
		}
	case reflect.Array:
		for n := range t.Len() {
			c.addFields(p, t.Elem(), offset+uintptr(n)*t.Elem().Size())
		}
	default:
		add(field{kind: opaque})
	}
}

// special returns the kind of a field for types whose kind does not follow from
// their reflect.Kind.
func (c *compiler) special(t reflect.Type) (k kind, special bool) {
	switch {
	case t == anyType:
		return dynamic, true
	case t == anyMapType:
		return dynamicMap, true
	case !hides(t) || c.inMap:
		return 0, false
	case constant[t]:
		return instant, true
	default:
		return lazy, true
	}
}

// hides reports whether a type is a struct with unexported fields. Embedded
// structs do not count, because their own fields are examined. The methods of
// the type may cache results in its unexported fields. Therefore the type
// counts as lazy, unless it is in constant. TestTypesThatHideFields lists all
// such types in the built-in kinds.
func hides(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for f := range t.Fields() {
		if !f.IsExported() && (!f.Anonymous || f.Type.Kind() != reflect.Struct) {
			return true
		}
	}
	return false
}

// constant has the types with unexported fields that no method writes to, and
// whose equal values have equal bits.
var constant = map[reflect.Type]bool{
	reflect.TypeFor[time.Time]():       true,
	reflect.TypeFor[metav1.FieldsV1](): true, // in builds in which it contains a unique.Handle
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

// addRaw adds a field of raw bytes to the plan. If the previous field is raw
// and ends at offset, addRaw extends that field instead.
func (typ *plan) addRaw(offset, size uintptr) {
	if n := len(typ.fields); n > 0 {
		if previous := &typ.fields[n-1]; previous.kind == raw && previous.offset+previous.size == offset {
			previous.size += size
			return
		}
	}
	typ.fields = append(typ.fields, field{kind: raw, offset: offset, size: size})
}
