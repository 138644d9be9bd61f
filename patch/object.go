package patch

import (
	"context"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// An Object is anything the API server stores: a pointer to a generated type,
// to a custom type, to unstructured.Unstructured or to PartialObjectMetadata.
type Object interface {
	metav1.Object
	runtime.Object
}

// A Client patches objects of one kind in one namespace, or of one cluster-wide
// kind. Generated, gentype, dynamic, metadata and fake clients have this method.
type Client[T Object] interface {
	Patch(
		ctx context.Context, name string, pt types.PatchType, data []byte,
		opts metav1.PatchOptions, subresources ...string,
	) (T, error)
}

// isNil says whether v is nil or an interface that holds a nil pointer.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	rv := reflect.ValueOf(v)
	return rv.Kind() == reflect.Pointer && rv.IsNil()
}
