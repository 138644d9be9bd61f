package apisim

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/homeostat/homeostat/internal/apisim/rules"
)

// validNew returns an error if a new object breaks the rules for metadata, or
// those rules of its kind that programs violate most often.
func (x *exchange) validNew(obj object) error {
	meta := &unstructured.Unstructured{Object: obj}
	errs := validation.ValidateObjectMetaAccessor(meta, x.t.res.Namespaced, anyName, field.NewPath("metadata"))
	if x.t.res.builtin.typed {
		errs = append(errs, unqualified(obj)...)
	}
	if x.t.res.Schema != nil {
		errs = append(errs, x.t.res.Schema.Validate(obj, nil, "")...)
	}
	if x.t.res.builtin.typed && len(errs) == 0 && !x.s.opts.Incomplete {
		if rule := x.t.res.builtin.rules.Create; rule != nil {
			errs = rule(obj)
		}
		errs = append(errs, inspect(&x.t.res, obj)...)
	}
	return x.invalid(obj, errs)
}

// anyName accepts every name, because [store.checkName] has checked it.
func anyName(string, bool) []string { return nil }

// validUpdate returns an error if an update breaks the rules for metadata, the
// schema of a custom kind, or the rules of a built-in kind, such as the rule
// that a field cannot change. Both objects must be in their canonical form.
func (x *exchange) validUpdate(obj, old object) error {
	var errs field.ErrorList
	if !sameMeta(metaOf(obj), metaOf(old)) {
		if errs = metaErrors(obj, old); x.t.res.builtin.typed {
			errs = append(errs, unqualified(obj)...)
		}
	}
	if x.t.res.Schema != nil {
		errs = append(errs, x.t.res.Schema.Validate(obj, old, x.r.Subresource)...)
	}
	if rule := x.t.res.builtin.rules.Update; rule != nil && x.r.Subresource == "" {
		errs = append(errs, rule(obj, old)...)
	}
	if x.t.res.builtin.typed && x.r.Subresource == "" {
		errs = append(errs, inspectUpdate(&x.t.res, obj, old)...)
	}
	return x.invalid(obj, errs)
}

func (x *exchange) invalid(obj object, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(x.t.res.groupKind(), text(metaOf(obj), "name"), errs)
}

// sameMeta reports whether a and b, the metadata of two objects, are equal
// apart from fields that the server maintains.
func sameMeta(a, b object) bool {
	differs := func(a, b object) bool {
		for k, v := range a {
			if k != "resourceVersion" && k != "managedFields" && k != "generation" && !reflect.DeepEqual(v, b[k]) {
				return true
			}
		}
		return false
	}
	return !differs(a, b) && !differs(b, a)
}

func metaErrors(obj, old object) field.ErrorList {
	fresh, previous := &unstructured.Unstructured{Object: obj}, &unstructured.Unstructured{Object: old}
	if fresh.GetResourceVersion() == "" { // the update is unconditional
		meta := metaWithVersion(metaOf(obj), previous.GetResourceVersion())
		fresh = &unstructured.Unstructured{Object: object{"metadata": meta}}
	}
	path := field.NewPath("metadata")
	errs := validation.ValidateObjectMetaAccessorUpdate(fresh, previous, path)
	errs = append(errs, errs...) // the real server checks twice
	return append(errs, validation.ValidateFinalizers(fresh.GetFinalizers(), path.Child("finalizers"))...)
}

// unqualified returns an error for each finalizer of an object of a built-in
// kind, if the finalizer has no domain, such as example.com/, and is not one of
// Kubernetes' own. Like the real server, it accepts all finalizers of some
// kinds, such as Lease.
func unqualified(obj object) field.ErrorList {
	if slices.Contains([]string{
		"Event", "Lease", "PodDisruptionBudget", "RuntimeClass", "ValidatingWebhookConfiguration",
		"MutatingWebhookConfiguration",
	}, text(obj, "kind")) {
		return nil
	}
	known := []string{"kubernetes", metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents}
	var errs field.ErrorList
	for i, f := range finalizersOf(obj) {
		if !strings.Contains(f, "/") && !slices.Contains(known, f) {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "finalizers").Index(i), f,
				"name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

func metaWithVersion(m object, rv string) object {
	result := object{"resourceVersion": rv}
	for k, v := range m {
		if k != "resourceVersion" {
			result[k] = v
		}
	}
	return result
}

// typeRules returns the rules that set the defaults and check the values of all
// built-in kinds.
var typeRules = sync.OnceValue(func() *rules.Types {
	var types []reflect.Type
	for _, r := range Builtin() {
		if typed, err := scheme.Scheme.New(r.gvk()); err == nil {
			types = append(types, reflect.TypeOf(typed).Elem())
		}
	}
	return rules.New(types)
})

// inspect checks a whole object of a built-in kind.
func inspect(r *Resource, obj object) field.ErrorList {
	typed, err := scheme.Scheme.New(r.gvk())
	if err != nil {
		return nil
	}
	return typeRules().Check(reflect.TypeOf(typed).Elem(), obj)
}

// inspectUpdate checks an object if an update changes more than its metadata
// and its status, and if the object was valid before. A loaded object, or one
// that is older than a rule, may stay invalid.
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
