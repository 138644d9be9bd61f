package apisim

import (
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkList returns an error if the options of a list or a watch are invalid.
func checkList(r *request) error {
	if len(r.query) == 0 {
		return nil
	}
	o := &internalversion.ListOptions{
		Watch: r.Verb == "watch", ResourceVersion: r.query.Get("resourceVersion"), Continue: r.query.Get("continue"),
		ResourceVersionMatch: metav1.ResourceVersionMatch(r.query.Get("resourceVersionMatch")),
	}
	if v := r.query.Get("sendInitialEvents"); v != "" {
		initial := isTrue(v)
		o.SendInitialEvents = &initial
	}
	for _, name := range []string{"limit", "timeoutSeconds"} {
		if v := r.query.Get(name); v != "" {
			if _, err := strconv.ParseInt(v, 10, 64); err != nil {
				return apierrors.NewBadRequest(fmt.Sprintf("converting %s: %v", name, err))
			}
		}
	}
	return invalidOptions("ListOptions", validation.ValidateListOptions(o, true))
}

// checkWrite returns an error if the options of a create, an update or a patch
// are invalid.
func checkWrite(r *request) error {
	if len(r.query) == 0 && types.PatchType(r.mediaType) != types.ApplyYAMLPatchType {
		return nil
	}
	manager, fields := r.query.Get("fieldManager"), r.query.Get("fieldValidation")
	switch r.Verb {
	case "create":
		return invalidOptions("CreateOptions", metav1validation.ValidateCreateOptions(&metav1.CreateOptions{
			DryRun: r.query["dryRun"], FieldManager: manager, FieldValidation: fields,
		}))
	case "update":
		return invalidOptions("UpdateOptions", metav1validation.ValidateUpdateOptions(&metav1.UpdateOptions{
			DryRun: r.query["dryRun"], FieldManager: manager, FieldValidation: fields,
		}))
	case "patch":
		o := &metav1.PatchOptions{DryRun: r.query["dryRun"], FieldManager: manager, FieldValidation: fields}
		if v := r.query.Get("force"); v != "" {
			force := isTrue(v)
			o.Force = &force
		}
		return invalidOptions("PatchOptions", metav1validation.ValidatePatchOptions(o, types.PatchType(r.mediaType)))
	}
	return nil
}

func invalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind(kind).GroupKind(), "", errs)
}
