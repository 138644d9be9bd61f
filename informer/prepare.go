package informer

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/informer/internal/itemwise"
	"github.com/homeostat/homeostat/informer/internal/requests"
	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/intern"
	"github.com/homeostat/homeostat/internal/mark"
	"github.com/homeostat/homeostat/internal/wire"
)

// Transformer returns the function that the reflector calls for each received
// object of a streaming list.
func (r *reflectorStore[T]) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		r.progress.received.Add(1)
		r.progress.markActive()
		if object, ok := obj.(T); ok {
			r.unlisted = cmp.Or(r.unlisted, r.selected(object))
		}
		item, err := r.prepare(obj)
		if err != nil {
			if r.dropin == nil {
				r.unlisted = cmp.Or(r.unlisted, err)
			}
			return nil, err
		}
		if item.Spec != (wire.Fingerprint{}) {
			r.streamed[item.Object] = item.Spec
		}
		return item.Object, nil
	}
}

// prepare returns an item for the store. Its object is transformed, and shares
// equal parts with other objects.
func (r *reflectorStore[T]) prepare(obj any) (*tree.Item[T], error) {
	object, spec, err := r.typed(obj)
	if err != nil {
		return nil, err
	}
	item := itemOf(object)
	if itemwise.RefusalOf(object) != nil {
		return item, nil
	}
	r.sink.store.share(object)
	if spec != (wire.Fingerprint{}) && !intern.Lazy(object) { // the next state must not have the same memory
		item.Spec = spec
	}
	return item, nil
}

// typed returns the transformed object and, if it is known, the fingerprint of
// its spec. No client shares the object.
func (r *reflectorStore[T]) typed(obj any) (object T, spec wire.Fingerprint, err error) {
	object, ok := obj.(T)
	if !ok {
		return object, spec, wrongType[T](obj)
	}
	if object, spec, err = r.specs.take(object); err != nil {
		return object, spec, err
	}
	if r.source.mayShare() {
		object = object.DeepCopyObject().(T)
	}
	object, err = r.transform(object)
	return object, spec, err
}

func wrongType[T Object](obj any) error {
	return fmt.Errorf("the server sent a %T, not a %s", obj, reflect.TypeFor[T]())
}

// transform applies the options to an object before its parts are shared. So
// dropped parts use no memory. The result is a stub if Transform panics, or if
// the metadata of an untyped object cannot be decoded.
func (r *reflectorStore[T]) transform(object T) (transformed T, err error) {
	if object = itemwise.WithoutFault(object); itemwise.RefusalOf(object) != nil {
		return object, nil
	}
	if r.sink.options.DropManagedFields || r.settings.DropManagedFields {
		object.SetManagedFields(nil)
	}
	if r.sink.options.Transform == nil && r.settings.Transform == nil {
		return object, nil
	}
	const function = "informer.Options.Transform"
	identity, returned := itemwise.Identity(object), false
	kept := vitalOf(object)
	call := r.sink.store.calls.Begin(function, bound.KeyOf(object))
	defer func() {
		r.sink.store.calls.End(call)
		// Transform has ended the goroutine: the reflector may wait forever.
		if p := recover(); p == nil && !returned {
			r.progress.failed(r.ctx, fmt.Errorf(function+" failed for %q: %w",
				identity.Namespace+"/"+identity.Name, requests.ErrGoexit))
		} else if p != nil {
			identity.Labels, identity.OwnerReferences = object.GetLabels(), object.GetOwnerReferences()
			refusal := itemwise.Panicked(itemwise.CauseTransform, function, p)
			stub, ok := itemwise.Stub[T](identity, refusal)
			if transformed = stub; !ok {
				err = refusal.Err
			}
		}
	}()
	if r.settings.Transform != nil {
		made, err := r.settings.Transform(object)
		returned = true
		if transformed, ok := made.(T); ok || err != nil {
			return transformed, err
		}
		return transformed, wrongType[T](made)
	}
	r.sink.options.Transform(object)
	returned = true
	kept.restore(object)
	return object, nil
}

// vital is the part of the metadata that Options.Transform cannot drop.
// Without it, an object that is being deleted would seem to be alive, the
// status of an object would be about no generation, and a copy of a child would
// be taken for the child.
type vital struct {
	deletion    *metav1.Time
	generation  int64
	annotations map[string]string // the annotations of package mark
}

func vitalOf(object metav1.Object) vital {
	v := vital{deletion: object.GetDeletionTimestamp(), generation: object.GetGeneration()}
	all := object.GetAnnotations()
	for _, key := range []string{mark.OwnerAnnotation, mark.ChildAnnotation} {
		if value, ok := all[key]; ok {
			if v.annotations == nil {
				v.annotations = map[string]string{}
			}
			v.annotations[key] = value
		}
	}
	return v
}

// restore puts back what Transform has dropped or changed.
func (v vital) restore(object metav1.Object) {
	if !object.GetDeletionTimestamp().Equal(v.deletion) {
		object.SetDeletionTimestamp(v.deletion)
	}
	if object.GetGeneration() != v.generation {
		object.SetGeneration(v.generation)
	}
	if len(v.annotations) == 0 {
		return
	}
	all := object.GetAnnotations()
	for key, value := range v.annotations {
		if all[key] != value {
			all = maps.Clone(all)
			if all == nil {
				all = map[string]string{}
			}
			all[key] = value
			object.SetAnnotations(all)
		}
	}
}

// transformInPlace transforms an object of a list, and lets it share equal
// parts with other objects.
func (r *reflectorStore[T]) transformInPlace(object T) error {
	transformed, err := r.transform(object)
	if err != nil {
		return err
	}
	if any(transformed) != any(object) {
		reflect.ValueOf(object).Elem().Set(reflect.ValueOf(transformed).Elem())
		return nil
	}
	if itemwise.RefusalOf(object) == nil {
		r.sink.store.share(object)
	}
	return nil
}
