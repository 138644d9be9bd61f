package apisim

import (
	"encoding/base64"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// canonical returns obj in a form that is the same for equal objects. It
// encodes an object of a built-in kind as the kind's Go type does, which drops
// unknown fields and normalizes quantities and times. It also removes empty
// fields from the metadata. Without this, an update that writes the same value
// in a different form would count as a change.
func canonical(r *Resource, obj object) (object, error) {
	obj["apiVersion"], obj["kind"] = r.apiVersion(), r.Kind
	if r.builtin.typed {
		if r.Resource == "secrets" {
			sealSecret(obj)
		}
		var err error
		if obj, err = remembered.lookup(r, obj, encodeTyped); err != nil {
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

// encodeTyped decodes an object into its Go type, stores and reads it like the
// server, and returns what the Go type then encodes. The result depends on the
// object alone.
func encodeTyped(r *Resource, obj object) (object, error) {
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
	typeRules().SetDefaults(typed) // set the defaults of fields that storage omits in a template
	if obj, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed); err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("encoding a %s: %w", r.Kind, err))
	}
	return obj, nil
}

// blank returns an empty object of a kind as its Go type encodes it.
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

// message is an object that encodes itself as protobuf, as the generated types
// do.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
}

var _ message = (*metav1.Status)(nil)

// throughStorage returns an object as the server reads it back. The server
// stores built-in kinds in protobuf, which loses empty lists.
func throughStorage(r *Resource, obj runtime.Object) (runtime.Object, error) {
	encoder, ok := obj.(message)
	if !ok {
		return obj, nil // a review is not stored
	}
	data, err := encoder.Marshal()
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

// sealSecret changes a Secret as the server does: it moves stringData into
// data, and sets the type.
func sealSecret(obj object) {
	if stringData, _ := obj["stringData"].(object); len(stringData) > 0 {
		data, _ := obj["data"].(object)
		if data == nil {
			data = object{}
		}
		for k, v := range stringData {
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
