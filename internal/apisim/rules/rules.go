// Package rules describes the built-in kinds of the simulated API server, as
// data where that is possible: the defaults of omitted fields, and the values
// that an object of a kind must or must not have. It does not know about
// requests or storage.
//
// For example, the defaults of a Deployment say that it has one replica, and
// its rules say that its selector cannot change.
//
//   - defaults_*.go have the defaults, by the Go type of the value.
//   - inspect_*.go have the checks of a value wherever its Go type occurs.
//   - required.go has the fields that a new object of a kind must have, and
//     immutable.go the fields that an update cannot change.
package rules

import (
	"reflect"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Types sets the defaults and checks the values in objects of the Go types that
// were given to New. It is safe for concurrent use.
type Types struct {
	defaults   *defaulters
	inspectors *inspectors
}

// New returns the Types of the given types. These are structs such as
// corev1.Pod.
func New(types []reflect.Type) *Types { return &Types{newDefaulters(types), newInspectors(types)} }

// SetDefaults sets the defaults of an object and of all values in it. The
// object is a pointer to a struct of one of the types.
func (t *Types) SetDefaults(typed any) { t.defaults.apply(reflect.ValueOf(typed)) }

// Check returns the validation errors of an object and of all values in it. typ
// is the Go type of the object.
func (t *Types) Check(typ reflect.Type, obj map[string]any) field.ErrorList {
	return t.inspectors.errs(typ, obj, nil)
}

// Rules has the server's checks of a built-in kind, apart from checks of the
// metadata. Each field may be nil.
type Rules struct {
	Create func(obj map[string]any) field.ErrorList
	Update func(obj, old map[string]any) field.ErrorList
}

// rbac is the API group of roles and their bindings.
const rbac = "rbac.authorization.k8s.io"
