package diff

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// plans holds the plan of every type that was ever compared, a *node or an error. It is filled once
// per type and never changes a plan, as encoding/json does with its encoders.
var plans sync.Map

// planOf returns the compiled plan of t, or why there is none.
func planOf(t reflect.Type) (*node, error) {
	if got, ok := plans.Load(t); ok {
		if n, ok := got.(*node); ok {
			return n, nil
		}
		return nil, got.(error)
	}
	c := compiler{seen: map[reflect.Type]*node{}}
	n, err := c.compile(t)
	if err != nil {
		plans.Store(t, err)
		return nil, err
	}
	got, _ := plans.LoadOrStore(t, n)
	return got.(*node), nil
}

// compiler makes the plans of one root type and of all that it holds.
type compiler struct{ seen map[reflect.Type]*node }

func (c *compiler) compile(t reflect.Type) (*node, error) {
	if n, ok := c.seen[t]; ok {
		return n, nil
	}
	n := &node{typ: t, kind: kindFor(t)}
	c.seen[t] = n
	var err error
	switch n.kind {
	case kindPointer, kindSlice:
		n.elem, err = c.compile(t.Elem())
	case kindMap:
		n.elem, err = c.mapElem(t)
	case kindStruct:
		n.isMeta = t == reflect.TypeFor[metav1.ObjectMeta]()
		if err = c.collect(n, t, 0, 0); err == nil {
			n.layOut()
		}
	}
	return n, err
}

func (c *compiler) mapElem(t reflect.Type) (*node, error) {
	e := t.Elem()
	if marshals(reflect.PointerTo(e)) && !marshals(e) {
		return nil, fmt.Errorf("type %v: values of a map cannot use the MarshalJSON of their pointer", t)
	}
	return c.compile(e)
}

func marshals(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

func kindFor(t reflect.Type) kind {
	if t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface && marshals(reflect.PointerTo(t)) {
		return kindOpaque
	}
	switch t.Kind() {
	case reflect.Bool:
		return kindBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return kindInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return kindUint
	case reflect.Float32, reflect.Float64:
		return kindFloat
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

// collect adds the JSON members of struct t, which lies at offset inside n, as encoding/json sees them.
func (c *compiler) collect(n *node, t reflect.Type, offset uintptr, depth int) error {
	for sf := range t.Fields() {
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		switch {
		case sf.Tag.Get("json") == "-":
			continue
		case sf.Anonymous && name == "" && sf.Type.Kind() == reflect.Struct:
			if err := c.collect(n, sf.Type, offset+sf.Offset, depth+1); err != nil {
				return err
			}
			continue
		case sf.Anonymous && name == "" && sf.Type.Kind() == reflect.Pointer:
			return fmt.Errorf("type %v embeds the pointer %s", t, sf.Name)
		case !sf.IsExported():
			continue
		}
		f := field{name: name, offset: offset + sf.Offset, depth: depth}
		if f.name == "" {
			f.name = sf.Name
		}
		if err := f.options(options, sf); err != nil {
			return fmt.Errorf("type %v: %w", t, err)
		}
		var err error
		if f.node, err = c.compile(sf.Type); err != nil {
			return err
		}
		f.byKey = n.isMeta && sf.Type == reflect.TypeFor[map[string]string]()
		if err := n.add(f); err != nil {
			return err
		}
	}
	return nil
}

func (f *field) options(options string, sf reflect.StructField) error {
	for o := range strings.SplitSeq(options, ",") {
		switch o {
		case "omitempty":
			f.omitEmpty = true
		case "omitzero":
			f.omitZero = true
		case "string":
			return fmt.Errorf("field %s is quoted", sf.Name)
		}
	}
	for s := range strings.SplitSeq(sf.Tag.Get("patchStrategy"), ",") {
		switch s {
		case "merge":
			f.merge = true
		case "retainKeys":
			f.retain = true
		case "replace":
			f.replace = true
		}
	}
	f.mergeKey = sf.Tag.Get("patchMergeKey")
	return nil
}

// add appends f unless a shallower member of the same name hides it.
func (n *node) add(f field) error {
	was := n.member(f.name)
	switch {
	case was == nil:
		n.fields = append(n.fields, f)
	case was.depth == f.depth:
		return fmt.Errorf("type %v has two members %q", n.typ, f.name)
	case was.depth > f.depth:
		*was = f
	}
	return nil
}
