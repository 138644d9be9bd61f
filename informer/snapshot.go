package informer

import (
	"iter"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Snapshot is the content of an informer's cache at one moment. It stays valid
// while the cache changes, and keeps its objects in memory for as long as it is
// retained.
//
// Iteration is sorted by namespace and name and allocates nothing. Objects are
// shared with every reader; do not modify them. It is safe for concurrent use.
//
// Snapshots of one informer are equal (==) only if nothing has changed between
// them. So snapshots of several informers show the same moment if the first ones
// are still the newest when the last one has been taken:
//
//	n, p := nodes.Snapshot(), pods.Snapshot()
//	for n != nodes.Snapshot() {
//		n, p = nodes.Snapshot(), pods.Snapshot()
//	}
type Snapshot[T Object] struct{ state *state[T] }

// Get returns the object of key as of the snapshot, and whether there was one. The
// object is shared; do not modify it. It searches a tree, which takes longer than
// [Informer.Get].
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

// All iterates over all objects. An iteration may be stopped early, and repeated.
func (s Snapshot[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) { s.root().all(yield) }
}

// Namespace iterates over the objects of one namespace. Unlike in Select, "" means
// the cluster-scoped objects, not all.
func (s Snapshot[T]) Namespace(name string) iter.Seq[T] {
	return func(yield func(T) bool) { s.root().namespace(name, yield) }
}

// Select iterates over the objects of a namespace ("" for all) that match
// selector. A nil selector matches none, as a null metav1.LabelSelector does;
// labels.Everything() matches all.
//
// If selector requires a single value for one of Options.IndexLabels, only the
// objects with that value are matched against it, or none if it requires nothing
// else. Otherwise all objects of the namespace are. It allocates nothing, unless
// the objects' GetLabels does (unstructured).
//
//	web := labels.SelectorFromSet(labels.Set{"app": "web"})
//	for pod := range pods.Snapshot().Select("default", web) { … }
func (s Snapshot[T]) Select(namespace string, selector labels.Selector) iter.Seq[T] {
	return func(yield func(T) bool) {
		if selector == nil {
			return
		}
		root, all := s.narrowest(selector)
		match := func(object T) bool {
			return !all && !selector.Matches(labels.Set(object.GetLabels())) || yield(object)
		}
		if namespace == "" {
			root.all(match)
		} else {
			root.namespace(namespace, match)
		}
	}
}

// narrowest returns the smallest tree with all objects that match selector, and
// whether it has no others.
func (s Snapshot[T]) narrowest(selector labels.Selector) (root *node[T], all bool) {
	root, count := s.root(), s.Len()
	if s.state == nil {
		return root, false
	}
	for _, key := range s.state.labels {
		if value, ok := selector.RequiresExactMatch(key); ok {
			if p := s.state.indexes[0].(*postings[T, label]).get(label{key, value}); p.count <= count {
				root, count = p.root, p.count
				requirements, _ := selector.Requirements()
				all = len(requirements) == 1 // this one
			}
		}
	}
	return root, all
}

func (s Snapshot[T]) root() *node[T] {
	if s.state == nil {
		return nil
	}
	return s.state.root
}
