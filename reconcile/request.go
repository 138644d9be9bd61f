package reconcile

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
)

// Key names the object that a turn is about: namespace and name, where the
// namespace of a cluster-scoped object is empty.
type Key = types.NamespacedName

// A Request asks a Reconciler to look at one object and to make what follows
// from it so.
//
// It says nothing about what happened, because a level-driven controller must
// not depend on it: events are merged, missed and repeated.
type Request[T informer.Object] struct {
	// Key is the object's namespace and name.
	Key Key

	object T
	found  bool
}

// Object returns the cached object, as of the start of the reconcile, and whether
// there is one. If not, the object is deleted: clean up what it left.
//
// The object is shared with every reader of the cache; do not modify it. Change
// it through package patch, or change a DeepCopy.
func (r Request[T]) Object() (object T, ok bool) { return r.object, r.found }

// WithObject returns a request about object. It is for unit tests, which call a
// Reconciler directly: Request[*corev1.Pod]{}.WithObject(pod), or, for a deleted
// object, Request[*corev1.Pod]{Key: key}. Controllers make their own requests.
func (r Request[T]) WithObject(object T) Request[T] {
	return Request[T]{Key: Key{Namespace: object.GetNamespace(), Name: object.GetName()}, object: object, found: true}
}
