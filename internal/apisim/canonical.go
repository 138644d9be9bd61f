package apisim

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// canonical gives a built-in object the shape that its Go type encodes to: unknown fields go, quantities and
// times get their one spelling. Without it an update that changes nothing would look like a change.
func canonical(r *Resource, obj object) (object, error) {
	obj["apiVersion"], obj["kind"] = r.apiVersion(), r.Kind
	if r.builtin.typed {
		typed, err := scheme.Scheme.New(r.gvk())
		if err != nil {
			return nil, apierrors.NewInternalError(fmt.Errorf("making a %s: %w", r.Kind, err))
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj, typed); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v",
				r.Kind, r.Version, r.Kind, err))
		}
		if obj, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed); err != nil {
			return nil, apierrors.NewInternalError(fmt.Errorf("encoding a %s: %w", r.Kind, err))
		}
	}
	m := metaOf(obj)
	for _, field := range []string{
		"creationTimestamp", "deletionTimestamp", "labels", "annotations",
		"finalizers", "ownerReferences",
	} {
		if empty(m[field]) {
			delete(m, field)
		}
	}
	return obj, nil
}

func empty(v any) bool {
	switch t := v.(type) {
	case nil:
		return true
	case object:
		return len(t) == 0
	case []any:
		return len(t) == 0
	case string:
		return t == ""
	}
	return false
}
