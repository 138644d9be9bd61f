package apisim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
)

var patchTypes = []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType}

func (x *exchange) patch() (*output, error) {
	if types.PatchType(x.r.mediaType) == types.ApplyYAMLPatchType {
		return x.apply()
	}
	if !slices.Contains(patchTypes, types.PatchType(x.r.mediaType)) {
		err := unsupportedMedia("415: Unsupported Media Type")
		err.ErrStatus.Details = &metav1.StatusDetails{}
		return nil, err
	}
	current := x.t.objects[x.r.key()]
	if current == nil {
		return nil, apierrors.NewNotFound(x.t.res.groupResource(), x.r.Name)
	}
	obj, err := applyPatch(x.t, x.r, current)
	if err != nil {
		return nil, err
	}
	if err := checkPatched(x.t, x.r, obj); err != nil {
		return nil, err
	}
	if err := x.admitPatched(obj); err != nil {
		return nil, err
	}
	fresh, err := x.replace(current, obj)
	if err != nil {
		return nil, err
	}
	return x.r.show(http.StatusOK, fresh)
}

func (x *exchange) admitPatched(obj object) error {
	var raw []byte
	if x.r.query.Get("fieldValidation") != "" {
		var err error
		if raw, err = json.Marshal(obj); err != nil {
			return err
		}
	}
	return x.checkSchema(obj, raw)
}

// checkPatched returns an error if the result of a patch does not fit the URL.
func checkPatched(t *table, r *request, obj object) error {
	if t.res.builtin.typed { // the patch may remove the kind, which is known
		obj["kind"] = cmp.Or(text(obj, "kind"), t.res.Kind)
	}
	if text(obj, "kind") == "" || text(obj, "apiVersion") == "" {
		return apierrors.NewBadRequest("Object 'Kind' or 'apiVersion' is missing")
	}
	for _, f := range []struct{ name, want string }{{"apiVersion", t.res.apiVersion()}, {"kind", t.res.Kind}} {
		if !t.res.builtin.typed && text(obj, f.name) != f.want {
			return apierrors.NewInvalid(t.res.groupKind(), r.Name, field.ErrorList{
				field.Invalid(field.NewPath(f.name), text(obj, f.name), "must be "+f.want),
			})
		}
	}
	if text(obj, "kind") != t.res.Kind || text(obj, "apiVersion") != t.res.apiVersion() {
		return invalidPatch(fmt.Sprintf("no kind %q is registered for version %q", text(obj, "kind"),
			text(obj, "apiVersion")))
	}
	m := metaOf(obj)
	if ns := text(m, "namespace"); ns != "" && ns != r.Namespace {
		return wrongNamespace()
	}
	if name := text(m, "name"); name != r.Name {
		return wrongName(name, r.Name)
	}
	return nil
}

// invalidPatch returns the error for a patch whose result does not decode.
func invalidPatch(message string) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{
		field.Invalid(field.NewPath("patch"), "", message),
	})
}

// asPatch converts an error of decoding an object to the form that it has for a
// patch.
func asPatch(r *request, err error) error {
	if r.Verb == "patch" && apierrors.IsBadRequest(err) {
		return invalidPatch(err.Error())
	}
	return err
}

// applyPatch applies the patch to a copy of the object.
func applyPatch(t *table, r *request, current *stored) (object, error) {
	switch types.PatchType(r.mediaType) {
	case types.JSONPatchType:
		return jsonPatched(r, current)
	case types.MergePatchType:
		change, err := decode(r.body)
		if err != nil || change == nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid merge patch: %v", err))
		}
		return mergeObjects(clone(current.obj), change), nil
	}
	return strategic(t, r, current)
}

const maxOperations = 10_000 // limit of a JSON patch

func jsonPatched(r *request, current *stored) (object, error) {
	ops, err := jsonpatch.DecodePatch(r.body)
	if err != nil {
		return nil, apierrors.NewBadRequest("error decoding patch: " + err.Error())
	}
	if len(ops) > maxOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, len(ops)))
	}
	body, err := ops.Apply(current.raw)
	if err != nil {
		return nil, unprocessable()
	}
	obj, err := decode(body)
	if err != nil || obj == nil {
		return nil, invalidPatch("the patch leaves no object")
	}
	return obj, nil
}

func strategic(t *table, r *request, current *stored) (object, error) {
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
	obj, err := strategicpatch.StrategicMergeMapPatch(clone(current.obj), change, typed)
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

// mergeObjects applies a merge patch, RFC 7386: null removes a member, objects
// are merged, and other values are replaced. Like the library of the API server,
// and unlike the RFC, it also drops the nulls from the objects in a list, unless
// the list replaces an object.
func mergeObjects(target, change object) object {
	for k, v := range change {
		sub, isObject := v.(object)
		switch {
		case v == nil:
			delete(target, k)
		case isObject:
			have, _ := target[k].(object)
			if have == nil {
				have = object{}
			}
			target[k] = mergeObjects(have, sub)
		default:
			if _, wasObject := target[k].(object); !wasObject {
				dropNulls(v)
			}
			target[k] = v
		}
	}
	return target
}

// dropNulls removes the members that are null from the objects in v, at any
// depth.
func dropNulls(v any) {
	switch v := v.(type) {
	case object:
		for k, member := range v {
			if dropNulls(member); member == nil {
				delete(v, k)
			}
		}
	case []any:
		for _, e := range v {
			dropNulls(e)
		}
	}
}
