package reconcile

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
)

// A source is an informer without its type: what a controller needs of every
// informer that it watches.
type source interface { //nolint:interfacebloat // it hides a type parameter, not an implementation
	// identity is the informer itself, to tell two sources of one informer.
	identity() any
	Name() string
	Kind() string
	Run(ctx context.Context) error
	WaitForSync(ctx context.Context) error
	WaitForLatest(ctx context.Context) error
	Status() informer.Status
	// Mapping returns kind, resource and scope, as far as they are known.
	Mapping() (meta.RESTMapping, error)

	// concerns tells whether this cache will hold obj.
	concerns(obj metav1.Object) bool
	// OnSeen calls f once the cache has seen version of namespace.
	OnSeen(namespace, version string, f func()) (cancel func())
	// cached returns the cache's state of the object of obj's key.
	cached(obj metav1.Object) metav1.Object
	// departed tells whether the cache no longer holds the object of that UID,
	// or holds it marked for deletion.
	departed(key Key, uid types.UID) bool
	// watchDepartures calls f after every event that may have changed departed.
	watchDepartures(f func(types.UID)) (remove func())
}

type typed[T informer.Object] struct{ *informer.Informer[T] }

func (s typed[T]) identity() any { return s.Informer }

func (s typed[T]) concerns(obj metav1.Object) bool {
	object, ok := obj.(T)
	if !ok {
		return false
	}
	// One Go type may stand for many kinds: unstructured and metadata-only.
	if kind := runtime.Object(object).GetObjectKind().GroupVersionKind().Kind; kind != "" && kind != s.Kind() {
		return false
	}
	return s.Covers(obj)
}

func (s typed[T]) cached(obj metav1.Object) metav1.Object {
	if cached, ok := s.Get(Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}); ok {
		return cached
	}
	return nil
}

func (s typed[T]) departed(key Key, uid types.UID) bool {
	cached, ok := s.Get(key)
	return !ok || cached.GetUID() != uid || cached.GetDeletionTimestamp() != nil
}

func (s typed[T]) watchDepartures(f func(types.UID)) (remove func()) {
	return s.Handle(func(e informer.Event[T]) {
		switch {
		case e.Kind == informer.Deleted:
			f(e.Old.GetUID())
		case e.New.GetDeletionTimestamp() != nil:
			f(e.New.GetUID())
		}
	})
}

// cachedBefore returns the state of an object that a write has changed, unless
// the cache is ahead already.
func (c *Controller) cachedBefore(written metav1.Object) metav1.Object {
	for _, s := range c.sources {
		if !s.concerns(written) {
			continue
		}
		before := s.cached(written)
		if before != nil && before.GetUID() == written.GetUID() &&
			before.GetResourceVersion() != written.GetResourceVersion() {
			return before
		}
	}
	return nil
}
