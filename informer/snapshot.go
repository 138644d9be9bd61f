package informer

import (
	"iter"

	"k8s.io/apimachinery/pkg/types"
)

// A Snapshot is what a cache held at one moment. It stays valid while the cache
// moves on, and keeps its objects in memory as long as it is held.
//
// Iteration is in the order of namespace and name and allocates nothing.
// Objects are shared with every reader, so read only.
//
// Snapshots of one informer are equal (==) only if nothing has changed between them.
// So those of several informers are of the same moment if the first ones are
// still the newest when the last one has been taken:
//
//	n, p := nodes.Snapshot(), pods.Snapshot()
//	for n != nodes.Snapshot() {
//		n, p = nodes.Snapshot(), pods.Snapshot()
//	}
type Snapshot[T Object] struct{ state *state[T] }

// Get returns the object of key as of the snapshot.
func (s Snapshot[T]) Get(key types.NamespacedName) (object T, ok bool) {
	if it := s.root().get(key); it != nil {
		return it.object, true
	}
	return object, false
}

// Len returns the number of objects.
func (s Snapshot[T]) Len() int {
	if s.state == nil {
		return 0
	}
	return s.state.count
}

// All iterates over all objects.
func (s Snapshot[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) { s.root().all(yield) }
}

// Namespace iterates over the objects of one namespace.
func (s Snapshot[T]) Namespace(name string) iter.Seq[T] {
	return func(yield func(T) bool) { s.root().namespace(name, yield) }
}

func (s Snapshot[T]) root() *node[T] {
	if s.state == nil {
		return nil
	}
	return s.state.root
}
