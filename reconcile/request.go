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

// NewRequest returns the request of a turn about key; found reports whether the
// cache holds object. Controllers make their own: this is for unit tests that
// call a Reconciler directly.
func NewRequest[T informer.Object](key Key, object T, found bool) Request[T] {
	return Request[T]{Key: key, object: object, found: found}
}

// Object returns the newest object of the cache, as of the start of the turn.
// False means that it is gone: clean up what it left.
//
// Shape: shared with every reader of the cache, so read only. Edit it through
// package patch, or a DeepCopy.
func (r Request[T]) Object() (object T, ok bool) { return r.object, r.found }
