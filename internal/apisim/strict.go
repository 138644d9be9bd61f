package apisim

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"
)

// checkFields checks an object, as a caller sent it or as a patch left it, for
// unknown and duplicate fields. Depending on the caller's fieldValidation, it
// returns an error for them, adds warnings to the answer, or ignores them.
func (x *exchange) checkFields(raw []byte, unknown []string) error {
	directive := x.r.query.Get("fieldValidation")
	if directive != metav1.FieldValidationStrict && directive != metav1.FieldValidationWarn {
		return nil
	}
	var faults []string
	if x.t.res.builtin.typed {
		typed, err := scheme.Scheme.New(x.t.res.gvk())
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("making a %s: %w", x.t.res.Kind, err))
		}
		faults = strictErrors(raw, typed)
	} else {
		var parts struct {
			Metadata json.RawMessage `json:"metadata"`
		}
		if err := json.Unmarshal(raw, &parts); err == nil && len(parts.Metadata) > 0 {
			for _, f := range strictErrors(parts.Metadata, &metav1.ObjectMeta{}) {
				faults = append(faults, strings.Replace(f, `field "`, `field "metadata.`, 1))
			}
		}
		for _, path := range unknown {
			faults = append(faults, fmt.Sprintf("unknown field %q", path))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	if directive == metav1.FieldValidationWarn {
		x.r.warnings = append(x.r.warnings, faults...)
		return nil
	}
	err := errors.New("strict decoding error: " + strings.Join(faults, ", "))
	return asPatch(x.r, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v",
		x.t.res.Kind, x.t.res.Version, x.t.res.Kind, err)))
}

func strictErrors(raw []byte, target any) []string {
	errs, err := kjson.UnmarshalStrict(raw, target)
	if err != nil {
		return nil // the syntax error is reported elsewhere
	}
	messages := make([]string, len(errs))
	for i, e := range errs {
		messages[i] = e.Error()
	}
	return messages
}
