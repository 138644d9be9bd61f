package informer

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// Wrap returns an informer of the objects that shared knows, for programs that
// have client-go's informers already:
//
//	pods := informer.Wrap[*corev1.Pod](factory.Core().V1().Pods().Informer(), nil)
//
// Its Run follows shared and does not start it: that remains its factory's
// job. Objects are those of shared; no others are made. Options that say what
// to watch, how, or what to store do not apply.
func Wrap[T Object](shared cache.SharedIndexInformer, o *Options) *Informer[T] {
	options := o.withDefaults()
	options.NoSharing = true
	s := source{shared: shared}
	if isNil(shared) {
		s.fault = errNoShared
	}
	return newInformer[T]([]source{s}, &options)
}

// following carries what a shared informer tells into the store.
type following[T Object] struct {
	reflection *reflection[T]

	began string // what shared had seen when it was first asked

	// mu guards what follows, and is held while an event is handed on: the
	// first objects become one list, and no event may overtake it.
	mu    sync.Mutex
	first map[types.NamespacedName]T // nil once they are stored
	ended bool
}

// follow does for a wrapped informer what run does for a client.
func (r *reflection[T]) follow(ctx context.Context) {
	f := &following[T]{
		reflection: r, first: map[types.NamespacedName]T{}, began: r.source.shared.LastSyncResourceVersion(),
	}
	registration, err := r.source.shared.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    f.store,
		UpdateFunc: func(_, obj any) { f.store(obj) },
		DeleteFunc: f.drop,
	})
	if err != nil {
		r.failed(ctx, fmt.Errorf("following the wrapped informer: %w", err))
		<-ctx.Done()
		return
	}
	select {
	case <-registration.HasSyncedChecker().Done():
		f.settle()
		<-ctx.Done()
	case <-ctx.Done():
	}
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	// It fails only if shared has stopped, and then it tells nothing any more.
	_ = r.source.shared.RemoveEventHandler(registration)
}

// settle stores the first objects as one list.
func (f *following[T]) settle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	list, newest := make([]any, 0, len(f.first)), ""
	for _, object := range f.first {
		list = append(list, object)
		version := object.GetResourceVersion()
		if c, err := resourceversion.CompareResourceVersion(version, newest); newest == "" || err == nil && c > 0 {
			newest = version
		}
	}
	f.first = nil
	if len(list) == 0 {
		newest = cmp.Or(f.began, f.reflection.source.shared.LastSyncResourceVersion())
	}
	// Every element is a T, so that this cannot fail.
	_ = f.reflection.Replace(list, newest)
}

func (f *following[T]) store(obj any) {
	object, ok := obj.(T)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.ended:
	case f.first != nil:
		f.first[keyOf(object)] = object
	default:
		f.reflection.touch()
		f.reflection.informer.put(itemOf(object))
		f.reflection.UpdateResourceVersion(object.GetResourceVersion())
	}
}

func (f *following[T]) drop(obj any) {
	version := ""
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	} else if object, ok := obj.(metav1.Object); ok {
		version = object.GetResourceVersion()
	}
	object, ok := obj.(T)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.ended:
	case f.first != nil:
		delete(f.first, keyOf(object))
	default:
		f.reflection.touch()
		f.reflection.informer.drop(object)
		f.reflection.UpdateResourceVersion(version)
	}
}

func keyOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}
