package patch

import (
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// IsStale says that a write was refused because the object is not what it was
// when it was read: changed, or deleted and created again. It is no fault: look
// again at the newest object. A controller returns such an error as it is.
func IsStale(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

// describe wraps err with what was done to which object. A refusal of the UID
// lock, which servers report as an invalid object, becomes a conflict.
func describe(doing string, obj Object, err error) error {
	if err == nil {
		return nil
	}
	kind, key := kindOf(obj), types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if isOtherUID(err) {
		err = apierrors.NewConflict(schema.GroupResource{Resource: kind}, obj.GetName(), err)
	}
	return fmt.Errorf("%s %s %q: %w", doing, kind, key, err)
}

func isOtherUID(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Field == "metadata.uid" && cause.Type == metav1.CauseTypeFieldValueInvalid {
			return true
		}
	}
	return false
}

// kindOf is the object's kind as its TypeMeta has it, or else the name of its Go type.
func kindOf(obj Object) string {
	if kind := obj.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return reflect.TypeOf(obj).Elem().Name()
}
