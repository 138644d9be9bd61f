package rules

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// inspectors check values in all places where a type of the API occurs in an
// object of a built-in kind, just as defaulters set defaults in all places.
// They read the decoded object and descend only to values that have a check.
// The real server's checks are too large to link. The conformance test with
// testdata/conformance/table checks that the results are the same.
type inspectors struct {
	checks map[reflect.Type]func(object, *field.Path) field.ErrorList
	enums  map[reflect.Type][]string
	nested map[reflect.Type][]inspected // the fields of a struct that contain values to check
}

// inspected is a field of a struct. If it has no name, it is embedded, and its
// fields belong to the struct itself.
type inspected struct {
	name string
	typ  reflect.Type
}

// newInspectors returns the inspectors for objects of these Go types.
func newInspectors(types []reflect.Type) *inspectors {
	insp := &inspectors{
		checks: map[reflect.Type]func(object, *field.Path) field.ErrorList{},
		enums:  map[reflect.Type][]string{},
		nested: map[reflect.Type][]inspected{},
	}
	insp.values()
	insp.pods()
	insp.workloads()
	insp.network()
	insp.policies()
	for _, t := range types {
		insp.register(t)
	}
	return insp
}

// check registers f as the check of every T. f is called with the object and
// its path.
func check[T any](insp *inspectors, f func(object, *field.Path) field.ErrorList) {
	insp.checks[reflect.TypeFor[T]()] = f
}

// enum registers the values that a T may have. An empty T is always valid.
func enum[T ~string](insp *inspectors, values ...T) {
	for _, v := range values {
		insp.enums[reflect.TypeFor[T]()] = append(insp.enums[reflect.TypeFor[T]()], string(v))
	}
}

// register reports whether a type contains values to check, and records in
// which fields.
func (insp *inspectors) register(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return insp.enums[t] != nil
	}
	if _, known := insp.nested[t]; !known {
		insp.nested[t] = nil // a type may contain itself
		for f := range t.Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" && insp.register(base(f.Type)) {
				insp.nested[t] = append(insp.nested[t], inspected{name, base(f.Type)})
			}
		}
	}
	return insp.checks[t] != nil || insp.nested[t] != nil
}

// errs returns the errors of a value of type t and of all values in it. For a
// list of strings the error names the list without an index.
func (insp *inspectors) errs(t reflect.Type, v any, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch v := v.(type) {
	case string:
		if allowed := insp.enums[t]; v != "" && allowed != nil && !slices.Contains(allowed, v) {
			errs = append(errs, field.NotSupported(path, v, allowed))
		}
	case []any:
		for i, element := range v {
			place := path.Index(i)
			if _, word := element.(string); word {
				place = path
			}
			errs = append(errs, insp.errs(t, element, place)...)
		}
	case object:
		if f := insp.checks[t]; f != nil {
			errs = append(errs, f(v, path)...)
		}
		for _, f := range insp.nested[t] {
			switch value, ok := v[f.name]; {
			case f.name == "":
				errs = append(errs, insp.errs(f.typ, v, path)...)
			case ok:
				errs = append(errs, insp.errs(f.typ, value, path.Child(f.name))...)
			}
		}
	}
	return errs
}

// atLeast checks the named numbers of an object against a minimum. A number may
// be missing.
func atLeast(o object, path *field.Path, minimum int64, names ...string) field.ErrorList {
	var errs field.ErrorList
	for _, name := range names {
		if n, set := o[name].(int64); set && n < minimum {
			errs = append(errs, field.Invalid(path.Child(name), n, "must be greater than or equal to the least"))
		}
	}
	return errs
}

// requireFields returns an error for each of the named fields that is empty.
func requireFields(o object, path *field.Path, names ...string) field.ErrorList {
	var errs field.ErrorList
	for _, name := range names {
		if Empty(o[name]) {
			errs = append(errs, field.Required(path.Child(name), ""))
		}
	}
	return errs
}

// duplicateNames returns an error for each element of a list whose name an
// earlier element has.
func duplicateNames(list any, path *field.Path, name string) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	elements, _ := list.([]any)
	for i, v := range elements {
		if s := Text(Object(v), name); s != "" && seen[s] {
			errs = append(errs, field.Duplicate(path.Index(i).Child(name), s))
		} else {
			seen[s] = true
		}
	}
	return errs
}
