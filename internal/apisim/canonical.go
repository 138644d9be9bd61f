package apisim

import (
	"encoding/base64"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// canonical gives a built-in object the shape that its Go type encodes to: unknown fields go, quantities and
// times get their one spelling. Without it an update that changes nothing would look like a change.
func canonical(r *Resource, obj object) (object, error) {
	obj["apiVersion"], obj["kind"] = r.apiVersion(), r.Kind
	if r.builtin.typed {
		if r.Resource == "secrets" {
			sealSecret(obj)
		}
		var err error
		if obj, err = remembered.of(r, obj, shaped); err != nil {
			return nil, err
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

// shaped is an object as its Go type encodes to, by way of the storage. It follows from the object alone.
func shaped(r *Resource, obj object) (object, error) {
	typed, err := scheme.Scheme.New(r.gvk())
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("making a %s: %w", r.Kind, err))
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj, typed); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v",
			r.Kind, r.Version, r.Kind, err))
	}
	if typed, err = throughStorage(r, typed); err != nil {
		return nil, err
	}
	knownDefaults().apply(reflect.ValueOf(typed)) // for the fields that storage leaves out of a template
	if obj, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed); err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("encoding a %s: %w", r.Kind, err))
	}
	return obj, nil
}

// blank is an object of a kind in which nothing is set, as its Go type encodes to.
func blank(r *Resource) (object, error) {
	obj := object{}
	if typed, err := scheme.Scheme.New(r.gvk()); err == nil && r.builtin.typed {
		if obj, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed); err != nil {
			return nil, fmt.Errorf("encoding a %s: %w", r.Kind, err)
		}
	}
	obj["apiVersion"], obj["kind"] = r.apiVersion(), r.Kind
	return obj, nil
}

// message is an object with a form in protobuf, as generated types have it.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
}

var _ message = (*metav1.Status)(nil)

// throughStorage returns an object as the server reads it back: it stores built-in kinds in protobuf, which loses
// empty lists.
func throughStorage(r *Resource, obj runtime.Object) (runtime.Object, error) {
	from, ok := obj.(message)
	if !ok {
		return obj, nil // a review is not stored
	}
	data, err := from.Marshal()
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("storing a %s: %w", r.Kind, err))
	}
	stored, err := scheme.Scheme.New(r.gvk())
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("making a %s: %w", r.Kind, err))
	}
	if err := stored.(message).Unmarshal(data); err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("reading a stored %s: %w", r.Kind, err))
	}
	stored.GetObjectKind().SetGroupVersionKind(r.gvk())
	return stored, nil
}

// sealSecret changes a Secret as the server does: stringData becomes data, and the type is set.
func sealSecret(obj object) {
	if more, _ := obj["stringData"].(object); len(more) > 0 {
		data, _ := obj["data"].(object)
		if data == nil {
			data = object{}
		}
		for k, v := range more {
			if s, ok := v.(string); ok {
				data[k] = base64.StdEncoding.EncodeToString([]byte(s))
			}
		}
		obj["data"] = data
	}
	delete(obj, "stringData")
	if text(obj, "type") == "" {
		obj["type"] = "Opaque"
	}
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
