package patch

import (
	"reflect"

	"github.com/homeostat/homeostat/informer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// copyOf returns a deep copy of cached for an edit, and what to compare it with
// afterwards. Neither has managed fields if the metadata is a Go struct: only the
// server writes them, and they are often the larger half of an object's
// metadata. ok is false if the copy is of another type.
func copyOf[T informer.Object](cached T) (before, edited T, ok bool) {
	before = withoutManagedFields(cached)
	edited, ok = before.DeepCopyObject().(T)
	return before, edited, ok
}

// withoutManagedFields returns cached itself if it has no managed fields, and
// otherwise a shallow copy without them.
func withoutManagedFields[T informer.Object](cached T) T {
	theirs := metadataOf(cached)
	if theirs == nil || len(theirs.ManagedFields) == 0 {
		return cached
	}
	v := reflect.ValueOf(cached).Elem()
	shallow := reflect.New(v.Type())
	shallow.Elem().Set(v)
	out := shallow.Interface().(T)
	own := metadataOf(out)
	if own == theirs { // behind a pointer, so that both have it
		return cached
	}
	own.ManagedFields = nil
	return out
}

// metadataOf returns the metadata of an object that is a pointer to a struct, or nil.
func metadataOf(obj informer.Object) *metav1.ObjectMeta {
	accessor, ok := obj.(metav1.ObjectMetaAccessor)
	if !ok || reflect.TypeOf(obj).Kind() != reflect.Pointer {
		return nil
	}
	m, _ := accessor.GetObjectMeta().(*metav1.ObjectMeta)
	return m
}
