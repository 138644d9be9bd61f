package clientgo

import (
	"net/http"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/internal/wire"
)

// ReuseSpecs makes changes cheaper for shared informers of this package. Wrap
// the rest.Config of their clients with it before the clients are made:
//
//	config.Wrap(clientgo.ReuseSpecs)
//
// Most changes of an object do not change its spec, although the spec is the
// larger part of a Pod. An informer whose requests pass through the returned
// transport then does not decode the spec again, and takes it from the cached
// object. A change of a Pod takes less processor time than with client-go's
// informer, and allocates less than half of the memory.
//
// Only watches of built-in kinds in protobuf are concerned, and only if the
// ListerWatcher returns the watch of a typed client as it is, that client has
// the decoder of client-go or of controller-runtime, and the informer has no
// transform function other than [DropManagedFields]. FullDecode in the status
// of an informer, as [Informers] returns it, says why its specs are decoded.
// All other requests and answers pass through unchanged.
func ReuseSpecs(next http.RoundTripper) http.RoundTripper { return wire.Receiver(next) }

// DropManagedFields is a [cache.TransformFunc] that removes
// metadata.managedFields, which most programs do not read:
//
//	informers.WithTransform(clientgo.DropManagedFields)
//
// A shared informer of this package knows that it does not concern the spec. So
// [ReuseSpecs] has an effect with this function, but not with a function of the
// program that does the same. A value that is not an object is returned as it
// is. The error is always nil.
func DropManagedFields(obj any) (any, error) {
	if object, ok := obj.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	return obj, nil
}

// dropsManagedFields reports whether a transform function is DropManagedFields.
func dropsManagedFields(f cache.TransformFunc) bool {
	return reflect.ValueOf(f).Pointer() == reflect.ValueOf(DropManagedFields).Pointer()
}
