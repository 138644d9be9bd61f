package apisim

import (
	"reflect"
	"sync"

	"k8s.io/client-go/kubernetes/scheme"
)

// defaulters set the real server's defaults for fields that a caller left out: by type, wherever a value of the
// type occurs in an object of a built-in kind. Those of the real server (k8s.io/kubernetes) are too large to link;
// testdata/conformance/table/defaults.txt compares them.
type defaulters struct {
	set   map[reflect.Type]func(any)
	below map[reflect.Type][]int // the fields of a struct that hold something with defaults
}

// knownDefaults are those of all built-in kinds.
var knownDefaults = sync.OnceValue(func() *defaulters {
	d := &defaulters{set: map[reflect.Type]func(any){}, below: map[reflect.Type][]int{}}
	d.workloads()
	d.pods()
	d.volumes()
	d.network()
	d.policies()
	for _, r := range Builtin() {
		if typed, err := scheme.Scheme.New(r.gvk()); err == nil {
			d.look(reflect.TypeOf(typed).Elem())
		}
	}
	return d
})

// setter registers the function that sets the defaults of T.
func setter[T any](d *defaulters, set func(*T)) {
	d.set[reflect.TypeFor[T]()] = func(v any) { set(v.(*T)) }
}

// look reports whether there are defaults in a struct, and notes where.
func (d *defaulters) look(t reflect.Type) bool {
	if _, known := d.below[t]; !known {
		d.below[t] = nil // a type may hold itself
		for i := range t.NumField() {
			if f := base(t.Field(i).Type); f.Kind() == reflect.Struct && d.look(f) {
				d.below[t] = append(d.below[t], i)
			}
		}
	}
	return d.set[t] != nil || d.below[t] != nil
}

// base is the type that a type points to, or is a list of.
func base(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}

// apply sets the defaults of a value and of all in it, after every write: an update without replicas means one, not
// those that there are.
func (d *defaulters) apply(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			d.apply(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			d.apply(v.Index(i))
		}
	case reflect.Struct:
		if set := d.set[v.Type()]; set != nil {
			set(v.Addr().Interface())
		}
		for _, i := range d.below[v.Type()] {
			d.apply(v.Field(i))
		}
	}
}

// either gives a field its default.
func either[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// unset gives a field that is a pointer its default.
func unset[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
