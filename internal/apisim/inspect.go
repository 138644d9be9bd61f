package apisim

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
)

// inspectors check values wherever a type of the API occurs in an object of a built-in kind, as defaulters set them.
// They read the decoded object, and descend only to values that one of them checks. Those of the real server are too
// large to link; testdata/conformance/table compares them.
type inspectors struct {
	checks map[reflect.Type]func(object, *field.Path) field.ErrorList
	enums  map[reflect.Type][]string
	below  map[reflect.Type][]inspected // the fields of a struct that hold something to check
}

// inspected is a field of a struct: without a name its fields are those of the struct.
type inspected struct {
	name string
	typ  reflect.Type
}

// knownInspectors are those of all built-in kinds.
var knownInspectors = sync.OnceValue(func() *inspectors {
	in := &inspectors{
		checks: map[reflect.Type]func(object, *field.Path) field.ErrorList{},
		enums:  map[reflect.Type][]string{},
		below:  map[reflect.Type][]inspected{},
	}
	in.values()
	in.pods()
	in.workloads()
	in.network()
	in.policies()
	for _, r := range Builtin() {
		if typed, err := scheme.Scheme.New(r.gvk()); err == nil {
			in.look(reflect.TypeOf(typed).Elem())
		}
	}
	return in
})

// check registers a check of every T, with the object and its path.
func check[T any](in *inspectors, f func(object, *field.Path) field.ErrorList) {
	in.checks[reflect.TypeFor[T]()] = f
}

// enum registers the values that a T may have, beside none.
func enum[T ~string](in *inspectors, values ...T) {
	for _, v := range values {
		in.enums[reflect.TypeFor[T]()] = append(in.enums[reflect.TypeFor[T]()], string(v))
	}
}

// look reports whether there is something to check in a type, and notes where.
func (in *inspectors) look(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return in.enums[t] != nil
	}
	if _, known := in.below[t]; !known {
		in.below[t] = nil // a type may hold itself
		for f := range t.Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" && in.look(base(f.Type)) {
				in.below[t] = append(in.below[t], inspected{name, base(f.Type)})
			}
		}
	}
	return in.checks[t] != nil || in.below[t] != nil
}

// errs are those of a value of type t, and of all in it. Of a list of words the list is named, not the place in it.
func (in *inspectors) errs(t reflect.Type, v any, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch v := v.(type) {
	case string:
		if allowed := in.enums[t]; v != "" && allowed != nil && !slices.Contains(allowed, v) {
			errs = append(errs, field.NotSupported(path, v, allowed))
		}
	case []any:
		for i, element := range v {
			place := path.Index(i)
			if _, word := element.(string); word {
				place = path
			}
			errs = append(errs, in.errs(t, element, place)...)
		}
	case object:
		if f := in.checks[t]; f != nil {
			errs = append(errs, f(v, path)...)
		}
		for _, f := range in.below[t] {
			switch value, has := v[f.name]; {
			case f.name == "":
				errs = append(errs, in.errs(f.typ, v, path)...)
			case has:
				errs = append(errs, in.errs(f.typ, value, path.Child(f.name))...)
			}
		}
	}
	return errs
}

// inspect checks a whole object of a built-in kind.
func inspect(r *Resource, obj object) field.ErrorList {
	typed, err := scheme.Scheme.New(r.gvk())
	if err != nil {
		return nil
	}
	return knownInspectors().errs(reflect.TypeOf(typed).Elem(), obj, nil)
}

// inspectUpdate checks an object if more than its status has changed and it was valid before: an object that was
// loaded, or is older than a rule, may stay invalid.
func inspectUpdate(r *Resource, obj, old object) field.ErrorList {
	if !specChanged(r, old, obj) {
		return nil
	}
	errs := inspect(r, obj)
	if len(errs) > 0 && len(inspect(r, old)) > 0 {
		return nil
	}
	return errs
}

// atLeast checks numbers of an object that may be missing.
func atLeast(o object, path *field.Path, least int64, names ...string) field.ErrorList {
	var errs field.ErrorList
	for _, name := range names {
		if n, set := o[name].(int64); set && n < least {
			errs = append(errs, field.Invalid(path.Child(name), n, "must be greater than or equal to the least"))
		}
	}
	return errs
}

func needed(o object, path *field.Path, names ...string) field.ErrorList {
	var errs field.ErrorList
	for _, name := range names {
		if empty(o[name]) {
			errs = append(errs, field.Required(path.Child(name), ""))
		}
	}
	return errs
}

// twice are the elements of a list whose name an earlier one has.
func twice(list any, path *field.Path, name string) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	all, _ := list.([]any)
	for i, v := range all {
		if s := text(asObject(v), name); s != "" && seen[s] {
			errs = append(errs, field.Duplicate(path.Index(i).Child(name), s))
		} else {
			seen[s] = true
		}
	}
	return errs
}
