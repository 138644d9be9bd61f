package informer

import (
	"iter"

	"k8s.io/apimachinery/pkg/labels"
)

// A label is what the label index knows objects by.
type label struct{ key, value string }

func labelsOf[T Object](keys []string) func(T) []label {
	return func(object T) []label {
		var found []label
		all := object.GetLabels()
		for _, key := range keys {
			if value, ok := all[key]; ok {
				found = append(found, label{key, value})
			}
		}
		return found
	}
}

// Select iterates over the objects of a namespace ("" for all) that selector
// matches. If it asks for a single value of one of Options.IndexLabels, only
// the objects with that value are looked at, and none if it asks for nothing
// else; otherwise all of the namespace.
//
// It allocates nothing, unless the objects' GetLabels does (unstructured).
func (s Snapshot[T]) Select(namespace string, selector labels.Selector) iter.Seq[T] {
	return func(yield func(T) bool) { s.matching(namespace, selector, yield) }
}

func (s Snapshot[T]) matching(namespace string, selector labels.Selector, yield func(T) bool) {
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

// narrowest returns the tree with the fewest objects that holds all that
// selector matches, and whether all of its objects are such.
func (s Snapshot[T]) narrowest(selector labels.Selector) (root *node[T], all bool) {
	root, count := s.root(), s.Len()
	if s.state == nil || s.state.labels == nil {
		return root, false
	}
	for _, key := range s.state.indexed {
		if value, ok := selector.RequiresExactMatch(key); ok {
			if p := s.state.labels.get(label{key, value}); p.count <= count {
				root, count = p.root, p.count
				requirements, _ := selector.Requirements()
				all = len(requirements) == 1 // this one
			}
		}
	}
	return root, all
}
