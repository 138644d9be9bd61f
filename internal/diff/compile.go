package diff

import (
	"cmp"
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// plans maps types to their plans, or to nil if no plan can be made for a type.
// A type is compiled when values of it are first compared, and its plan never
// changes. Package encoding/json keeps its encoders in the same way.
var plans sync.Map

// planOf returns the compiled plan of t, or nil if t cannot be compiled.
func planOf(t reflect.Type) *node {
	got, ok := plans.Load(t)
	if !ok {
		c := compiler{seen: map[reflect.Type]*node{}}
		n := c.compile(t)
		if c.refused {
			n = nil
		}
		got, _ = plans.LoadOrStore(t, n)
	}
	return got.(*node)
}

// compiler makes the plans of one root type and of all types inside it.
type compiler struct {
	seen    map[reflect.Type]*node
	refused bool // whether one of the types has JSON that a plan cannot describe
}

func (c *compiler) compile(t reflect.Type) *node {
	if n, ok := c.seen[t]; ok {
		return n
	}
	n := &node{typ: t, kind: kindFor(t), respells: respells(t)}
	n.reshapes = reshapes(t, n.kind)
	n.rawAt, n.isRaw = rawBytes(t, n.kind)
	c.seen[t] = n
	switch n.kind {
	case kindPointer, kindSlice:
		n.elem = c.compile(t.Elem())
	case kindMap:
		e := t.Elem()
		if marshals(reflect.PointerTo(e)) && !marshals(e) {
			c.refused = true // encoding/json cannot take the address of a map's value
		}
		n.elem = c.compile(e)
	case kindStruct:
		n.isMeta = t == reflect.TypeFor[metav1.ObjectMeta]()
		c.collect(n, t, 0, 0)
	}
	return n
}

// respells reports whether t is a map that may write a key in a different form
// than it has read, because its keys are numbers or have a method
// UnmarshalText.
func respells(t reflect.Type) bool {
	return t.Kind() == reflect.Map && !marshals(reflect.PointerTo(t)) && (t.Key().Kind() != reflect.String ||
		reflect.PointerTo(t.Key()).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()))
}

func marshals(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

func kindFor(t reflect.Type) kind {
	if t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface && marshals(reflect.PointerTo(t)) {
		return kindOpaque
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return kindInt
	case reflect.Bool, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64:
		return kindScalar
	case reflect.String:
		if t == reflect.TypeFor[json.Number]() {
			return kindOpaque
		}
		return kindString
	case reflect.Pointer:
		return kindPointer
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 && !marshals(reflect.PointerTo(t.Elem())) {
			return kindBytes
		}
		return kindSlice
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return kindMap
		}
	case reflect.Struct:
		return kindStruct
	case reflect.Interface:
		return kindAny
	}
	return kindOpaque
}

// collect adds the JSON members of struct t by the rules of encoding/json. t
// lies at offset inside n. For example, it adds the members of an embedded
// struct to n itself.
func (c *compiler) collect(n *node, t reflect.Type, offset uintptr, depth int) {
	for sf := range t.Fields() {
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		switch {
		case sf.Tag.Get("json") == "-":
			continue
		case sf.Anonymous && name == "" && sf.Type.Kind() == reflect.Struct:
			c.collect(n, sf.Type, offset+sf.Offset, depth+1)
			continue
		case sf.Anonymous && name == "" && sf.Type.Kind() == reflect.Pointer:
			c.refused = true
			continue
		case !sf.IsExported():
			continue
		}
		tags, strategy := strings.Split(options, ","), strings.Split(sf.Tag.Get("patchStrategy"), ",")
		c.refused = c.refused || slices.Contains(tags, "string")
		c.add(n, field{
			name: cmp.Or(name, sf.Name), offset: offset + sf.Offset, depth: depth, node: c.compile(sf.Type),
			omitEmpty: slices.Contains(tags, "omitempty"), omitZero: slices.Contains(tags, "omitzero"),
			merge: slices.Contains(strategy, "merge"), retain: slices.Contains(strategy, "retainKeys"),
			replace: slices.Contains(strategy, "replace"), mergeKey: sf.Tag.Get("patchMergeKey"),
			byKey: n.isMeta && sf.Type == reflect.TypeFor[map[string]string](),
		})
	}
}

// add adds f to n. If n has a member of the same name, the shallower of the two
// hides the other. If both have the same depth, the type is refused.
func (c *compiler) add(n *node, f field) {
	existing := n.member(f.name)
	switch {
	case existing == nil:
		n.fields = append(n.fields, f)
	case existing.depth == f.depth:
		c.refused = true // encoding/json writes neither of the two members
	case existing.depth > f.depth:
		*existing = f
	}
}
