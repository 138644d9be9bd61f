package intern

import (
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
	raw         kind = iota // bytes that are what they are, without pointers
	instant                 // a constant with pointers, such as a time.Time with its location
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
	object                  // a whole object
	lazy                    // a value that its own methods write to when they read it
	opaque                  // what this package does not understand
)

// A plan tells how to walk values of one type. Structs within the type have
// been flattened into its fields.
type plan struct {
	list   reflect.Type // of slices of it
	number uint32       // from 1
	size   uintptr
	fields []field
	plain  bool // raw fields alone: bytes can be compared
	lazy   bool // a value is lazy or has a field that is
	holds  bool // values may point to lazy ones, or be such
}

type field struct {
	kind   kind
	offset uintptr
	size   uintptr
	to     *plan        // of the elements or of the target of a pointer
	typ    reflect.Type // of an opaque value
}

// plans holds the plan of every type that was ever walked. There is one of each,
// made once, and none changes after it was added.
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
	c.spread()
	for t, p := range c.made {
		plans.Store(t, p)
	}
	return p
}

var (
	bytesPlan    = planOf(reflect.TypeFor[byte]())
	quantityPlan = planInMap(quantityType)
)

// planInMap returns a plan of a lazy type for values in maps. Go lets nothing
// point into a map, so that their methods have copies to write to. What they
// point to, the copies share: that remains opaque.
func planInMap(t reflect.Type) *plan {
	making.Lock()
	defer making.Unlock()
	c := compiler{made: map[reflect.Type]*plan{}, inMap: true}
	return c.planOf(t)
}

// A compiler makes the plan of a type and of all that it holds.
type compiler struct {
	made  map[reflect.Type]*plan
	inMap bool // see planInMap
}

// spread completes holds of the plans.
func (c *compiler) spread() {
	for again := true; again; {
		again = false
		for _, p := range c.made {
			if !p.holds && slices.ContainsFunc(p.fields, func(f field) bool {
				return f.kind == lazy || f.to != nil && f.to.holds
			}) {
				p.holds, again = true, true
			}
		}
	}
}

// planOf compiles the plan of t. A type that contains itself ends at the plan
// that is being made.
func (c *compiler) planOf(t reflect.Type) *plan {
	if p, ok := c.made[t]; ok {
		return p
	}
	if p, ok := plans.Load(t); ok && !c.inMap {
		return p.(*plan)
	}
	made++
	p := &plan{list: reflect.SliceOf(t), number: made, size: t.Size()}
	c.made[t] = p
	c.addFields(p, t, 0)
	p.plain = len(p.fields) == 0 || len(p.fields) == 1 && p.fields[0].kind == raw
	p.lazy = slices.ContainsFunc(p.fields, func(f field) bool { return f.kind == lazy })
	return p
}

var (
	quantityType = reflect.TypeFor[resource.Quantity]()
	anyType      = reflect.TypeFor[any]()
	anyMapType   = reflect.TypeFor[map[string]any]()
)

func (c *compiler) addFields(p *plan, t reflect.Type, offset uintptr) {
	add := func(f field) {
		f.offset, f.size = offset, t.Size()
		if f.kind == opaque {
			f.typ = t
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
			f.kind, f.to = list, c.planOf(t.Elem())
		}
		if t.Kind() == reflect.Pointer && f.to != nil {
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

// special returns the kind of a field that its reflect.Kind does not tell.
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

// hides reports whether a type has fields of its package alone. Methods keep
// there what they have found out, so that such a type is lazy unless it is
// constant: that is how one finds lazy types. TestTypesThatHideFields knows all
// of the built-in kinds.
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

// constant are the types with hidden fields that nothing writes to, and of which
// equal ones have equal bits.
var constant = map[reflect.Type]bool{
	reflect.TypeFor[time.Time]():       true,
	reflect.TypeFor[metav1.FieldsV1](): true, // in a build where it is a unique.Handle
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

// addRaw adds bytes, as a part of the bytes before if there are no others
// between them.
func (of *plan) addRaw(offset, size uintptr) {
	if n := len(of.fields); n > 0 {
		if last := &of.fields[n-1]; last.kind == raw && last.offset+last.size == offset {
			last.size += size
			return
		}
	}
	of.fields = append(of.fields, field{kind: raw, offset: offset, size: size})
}
