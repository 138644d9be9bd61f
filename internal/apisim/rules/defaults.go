package rules

import (
	"reflect"
)

// defaulters set the real server's defaults for fields that a caller omitted.
// Each sets the defaults of one type, in all places where a value of the type
// occurs in an object of a built-in kind. The real server's code
// (k8s.io/kubernetes) is too large to link. The conformance test with
// testdata/conformance/table/defaults.txt checks that the results are the same.
type defaulters struct {
	set    map[reflect.Type]func(any)
	nested map[reflect.Type][]int // the fields of a struct that contain types with defaults
}

// newDefaulters returns the defaulters for objects of these Go types.
func newDefaulters(types []reflect.Type) *defaulters {
	d := &defaulters{set: map[reflect.Type]func(any){}, nested: map[reflect.Type][]int{}}
	d.workloads()
	d.pods()
	d.volumes()
	d.network()
	d.policies()
	for _, t := range types {
		d.register(t)
	}
	return d
}

// setter registers the function that sets the defaults of T.
func setter[T any](d *defaulters, set func(*T)) {
	d.set[reflect.TypeFor[T]()] = func(v any) { set(v.(*T)) }
}

// register reports whether a struct has defaults or contains types with
// defaults, and records in which fields.
func (d *defaulters) register(t reflect.Type) bool {
	if _, known := d.nested[t]; !known {
		d.nested[t] = nil // a type may contain itself
		for i := range t.NumField() {
			if f := base(t.Field(i).Type); f.Kind() == reflect.Struct && d.register(f) {
				d.nested[t] = append(d.nested[t], i)
			}
		}
	}
	return d.set[t] != nil || d.nested[t] != nil
}

// base returns the element type of a pointer or slice type, at any depth.
func base(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}

// apply sets the defaults of a value and of all values in it. It is called for
// every write. For example, after an update without replicas, the object has
// one replica, and not its previous number.
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
		for _, i := range d.nested[v.Type()] {
			d.apply(v.Field(i))
		}
	}
}

// setDefault sets a field that has its zero value to value.
func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// setDefaultPointer sets a field that is a nil pointer to a pointer to value.
func setDefaultPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
