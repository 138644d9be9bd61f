package informer

import (
	"iter"
	"slices"
)

// An Index finds the objects of an informer's cache by values that a function
// gives them. It changes with the cache, in the same step.
//
// Iteration is in the order of namespace and name and allocates nothing.
type Index[T Object, V comparable] struct {
	informer *Informer[T]
	number   int // among the state's indexes
}

// NewIndex adds an index to i:
//
//	byNode := informer.NewIndex(pods, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
//	for pod := range byNode.Get("node-1") { … }
//
// The values must follow from the object alone, and calls of the function may
// overlap. Objects that are known already are indexed before NewIndex returns;
// meanwhile changes wait.
func NewIndex[T Object, V comparable](i *Informer[T], of func(T) []V) *Index[T, V] {
	i.writing.Lock()
	defer i.writing.Unlock()
	current := i.state()
	var known []change[T]
	for _, it := range current.root.appendItems(nil) {
		known = append(known, change[T]{it: it})
	}
	next := *current
	next.indexes = append(slices.Clip(current.indexes), newPostings(of).apply(known))
	i.publish(versionOf(&next), batch[T]{})
	return &Index[T, V]{i, len(current.indexes)}
}

// Get iterates over the objects that have value when the iteration begins.
func (x *Index[T, V]) Get(value V) iter.Seq[T] {
	return func(yield func(T) bool) { x.at(x.informer.state(), value).root.all(yield) }
}

// In iterates over the objects of a snapshot that have value. Snapshots that
// are older than the index know none.
func (x *Index[T, V]) In(s Snapshot[T], value V) iter.Seq[T] {
	return func(yield func(T) bool) { x.at(s.state, value).root.all(yield) }
}

// Len returns the number of the newest objects that have value.
func (x *Index[T, V]) Len(value V) int { return x.at(x.informer.state(), value).count }

func (x *Index[T, V]) at(s *state[T], value V) posting[T] {
	if s == nil || x.number >= len(s.indexes) {
		return posting[T]{}
	}
	p, _ := s.indexes[x.number].(*postings[T, V])
	return p.get(value)
}
