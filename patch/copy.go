package patch

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A draft is a deep copy of a cached object for an edit. Where the type allows it, it has no managed
// fields: only the server writes them, and they are often the larger half of an object's metadata.
type draft[T Object] struct {
	obj      T
	stripped bool
}

func newDraft[T Object](cached T) (draft[T], bool) {
	from, stripped := cached, false
	if ownsMetadata(cached) && len(cached.GetManagedFields()) > 0 {
		shallow := reflect.New(reflect.TypeOf(cached).Elem())
		shallow.Elem().Set(reflect.ValueOf(cached).Elem())
		from, stripped = shallow.Interface().(T), true
		from.SetManagedFields(nil)
	}
	obj, ok := from.DeepCopyObject().(T)
	return draft[T]{obj, stripped}, ok
}

// ownsMetadata says whether a copy of the struct alone has metadata of its own.
func ownsMetadata(obj Object) bool {
	t := reflect.TypeOf(obj)
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return false
	}
	for i := range min(t.Elem().NumField(), 2) { // the type, then the metadata
		if t.Elem().Field(i).Type == reflect.TypeFor[metav1.ObjectMeta]() {
			return true
		}
	}
	return false
}

// edited is the copy after the edit, with the managed fields of cached unless the edit has set some.
func (d draft[T]) edited(cached T) T {
	if d.stripped && len(d.obj.GetManagedFields()) == 0 {
		d.obj.SetManagedFields(cached.GetManagedFields())
	}
	return d.obj
}
