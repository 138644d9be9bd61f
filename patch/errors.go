package patch

import (
	"errors"
	"fmt"
	"slices"

	"github.com/homeostat/homeostat/informer"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var errNilArgument = errors.New("patching: client, object and edit must not be nil")

// IsStale reports whether a write was refused because the object is not what it
// was when it was read: changed, or recreated. It is no fault: look again at the
// newest object. A controller returns such an error as it is.
func IsStale(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

// describe wraps err with what was done to which object. A refusal of the UID,
// which servers report as an invalid object, becomes a conflict.
func describe(doing string, obj informer.Object, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s %q: %w", doing, kindOf(obj), keyOf(obj), asConflict(obj.GetName(), err))
}

// asConflict makes a conflict of a refused UID, and leaves all other errors alone.
// A patch may be invalid on a recreated object for other reasons as well, since it
// was made for a different object: the UID decides.
func asConflict(name string, err error) error {
	var invalid apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &invalid) || invalid.Status().Details == nil {
		return err
	}
	details := invalid.Status().Details
	if !slices.ContainsFunc(details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Field == "metadata.uid" && cause.Type == metav1.CauseTypeFieldValueInvalid
	}) {
		return err
	}
	return apierrors.NewConflict(schema.GroupResource{Group: details.Group, Resource: details.Kind}, name, err)
}
