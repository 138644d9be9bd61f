package informer

import "iter"

// Index finds objects in an informer's cache by values that a function computes
// from them. It is updated in the same step as the cache.
//
// Iteration is sorted by namespace and name and allocates nothing. Objects are
// shared with every reader; do not modify them. It is safe for concurrent use.
type Index[T Object, V comparable] struct {
	store *store[T]
	// number is its position among the indexes of a state.
	number int
}

// NewIndex adds an index to i:
//
//	byNode := informer.NewIndex(pods, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
//	for pod := range byNode.Get("node-1") { … }
//
// The values must depend on the object alone; nil leaves the object out of the
// index. of is called for each change, and must not block or modify the object.
// Cached objects are indexed before NewIndex returns, while changes wait. An
// index cannot be removed.
func NewIndex[T Object, V comparable](i *Informer[T], of func(T) []V) *Index[T, V] {
	return &Index[T, V]{i.store, i.store.addIndex(func(known []change[T]) index[T] {
		return newPostings(of).after(known)
	})}
}

// Get iterates over the objects that have value when the iteration begins; each
// iteration over the same result reads the newest state again.
func (x *Index[T, V]) Get(value V) iter.Seq[T] {
	return func(yield func(T) bool) { x.at(x.store.latest.Load(), value).root.all(yield) }
}

// In iterates over the objects in a snapshot that have value: none, if the
// snapshot is older than the index.
func (x *Index[T, V]) In(s Snapshot[T], value V) iter.Seq[T] {
	return func(yield func(T) bool) { x.at(s.state, value).root.all(yield) }
}

// Len returns the number of objects in the cache that have value.
func (x *Index[T, V]) Len(value V) int { return x.at(x.store.latest.Load(), value).count }

func (x *Index[T, V]) at(s *state[T], value V) posting[T] {
	if s == nil || x.number >= len(s.indexes) {
		return posting[T]{}
	}
	p, _ := s.indexes[x.number].(*postings[T, V])
	return p.get(value)
}
