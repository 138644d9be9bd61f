package patch

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/bound"
)

var (
	errNilArgument = errors.New("patching: client, object and edit must not be nil")
	errOtherCopy   = errors.New("the object's DeepCopyObject method returns a different type")
)

// IsStale reports whether a write was refused because the object has been
// changed or recreated since it was read, or because the object to create
// exists already. A stale write is not a failure: return the error unchanged,
// and the controller reconciles the newest object. A status 409 that is not the
// API server's own, for example the page of a proxy or the refusal of an
// admission webhook, is a failure.
//
// IsStale is also true if the server could not change another object that it
// changes together with this one. For example, creating a Pod also changes the
// ResourceQuota of its namespace, and others may change the quota at the same
// time. Nothing was written then, and the next reconcile tries again.
//
// It is also true if another field manager owns a field, and [Options].NoForce
// does not let [Applier.Apply] take it. A newer cached object does not resolve
// it.
//
// If err joins several errors, as the result of errors.Join does, each of them
// must be such a refusal.
func IsStale(err error) bool {
	return absent.IsConflict(err)
}

// describe wraps err with the operation and the object, and turns the refusal
// of a UID into a conflict; see asConflict.
func describe(doing string, obj informer.Object, err error) error {
	return fmt.Errorf("%s %s %q: %w", doing, kindOf(obj), bound.KeyOf(obj), asConflict(obj.GetName(), err))
}

// asConflict returns a conflict if the server has refused the UID, and err
// otherwise. Servers report a refused UID as an invalid object, possibly with
// further causes, because a patch that was made for a different object may be
// invalid for other reasons as well.
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

// kindOf returns the kind in the object's TypeMeta. If that is empty, it
// returns the name of the object's Go type.
func kindOf(obj informer.Object) string {
	if kind := obj.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return reflect.TypeOf(obj).Elem().Name()
}
