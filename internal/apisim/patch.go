package apisim

import (
	"encoding/json"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

func (x *exchange) patch() (*output, error) {
	if types.PatchType(x.r.mediaType) == types.ApplyYAMLPatchType {
		return x.apply()
	}
	have := x.t.objects[x.r.key()]
	if have == nil {
		return nil, apierrors.NewNotFound(x.t.res.groupResource(), x.r.Name)
	}
	obj, err := patched(x.t, x.r, have)
	if err != nil {
		return nil, err
	}
	if name := text(metaOf(obj), "name"); name != x.r.Name {
		return nil, wrongName(name, x.r.Name)
	}
	fresh, err := x.replace(have, obj)
	if err != nil {
		return nil, err
	}
	return x.r.show(http.StatusOK, fresh)
}

// patched applies the patch to a copy of the object.
func patched(t *table, r *request, have *stored) (object, error) {
	switch types.PatchType(r.mediaType) {
	case types.JSONPatchType:
		var ops []operation
		if err := json.Unmarshal(r.body, &ops); err != nil {
			return nil, apierrors.NewBadRequest("error decoding patch: " + err.Error())
		}
		obj, err := applyOperations(clone(have.obj), ops)
		if err != nil {
			return nil, unprocessable()
		}
		return obj, nil
	case types.MergePatchType:
		change, err := decode(r.body)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return mergeObjects(clone(have.obj), change), nil
	case types.StrategicMergePatchType:
		return strategic(t, r, have)
	}
	err := unsupportedMedia("415: Unsupported Media Type")
	err.ErrStatus.Details = &metav1.StatusDetails{}
	return nil, err
}

func strategic(t *table, r *request, have *stored) (object, error) {
	if !t.res.builtin.typed {
		return nil, unsupportedMedia("the body of the request was in an unknown format - " +
			"accepted media types include: " +
			"application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml")
	}
	change, err := decode(r.body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	typed, err := scheme.Scheme.New(t.res.gvk())
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("making a %s: %w", t.res.Kind, err))
	}
	obj, err := strategicpatch.StrategicMergeMapPatch(clone(have.obj), change, typed)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return obj, nil
}

func unprocessable() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: "the server rejected our request due to an error in our request",
		Details: &metav1.StatusDetails{},
	}}
}

// mergeObjects is RFC 7386: null removes, objects merge, all else replaces.
func mergeObjects(into, change object) object {
	for k, v := range change {
		sub, isObject := v.(object)
		switch {
		case v == nil:
			delete(into, k)
		case isObject:
			have, _ := into[k].(object)
			if have == nil {
				have = object{}
			}
			into[k] = mergeObjects(have, sub)
		default:
			into[k] = v
		}
	}
	return into
}
