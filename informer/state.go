package informer

import (
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/intern"
)

// state is the content of the store at one moment, indexes included. It is
// immutable.
type state[T Object] struct {
	root  *node[T]
	count int
	// labels are Options.IndexLabels; if there are any, the first index has them.
	labels  []string
	indexes []index[T]
}

// after returns s after a change that matters.
func (s *state[T]) after(c change[T]) *state[T] {
	next := *s
	if c.it == nil {
		next.root = s.root.without(c.old.key)
		next.count--
	} else if next.root = s.root.swap(c.old, c.it); next.root == nil {
		next.root = s.root.with(c.it)
		if c.old == nil {
			next.count++
		}
	}
	next.reindex([]change[T]{c})
	return &next
}

// reindex applies changes to the indexes of s, which is not published yet.
func (s *state[T]) reindex(changes []change[T]) {
	indexes := s.indexes
	s.indexes = make([]index[T], len(indexes))
	for n, x := range indexes {
		s.indexes[n] = x.after(changes)
	}
}

// replaced returns all items when items, which are sorted, become the whole content
// of the namespaces within, and the changes that make the difference. Items whose
// objects have not changed stay.
func (s *state[T]) replaced(
	within func(string) bool, items []*item[T], how occasion,
) (all []*item[T], changes []change[T]) {
	var before []*item[T]
	all = make([]*item[T], 0, len(items))
	for _, it := range s.root.appendItems(make([]*item[T], 0, s.count)) {
		if within(it.key.Namespace) {
			before = append(before, it)
		} else {
			all = append(all, it)
		}
	}
	others := len(all)
	for len(before) > 0 || len(items) > 0 {
		var c change[T]
		switch {
		case len(items) > 1 && items[0].key == items[1].key:
			items = items[1:]
			continue
		case len(items) == 0 || len(before) > 0 && compareKeys(before[0].key, items[0].key) < 0:
			c.old, before = before[0], before[1:]
		case len(before) == 0 || compareKeys(items[0].key, before[0].key) < 0:
			c.it, items = items[0], items[1:]
		default:
			c, before, items = change[T]{before[0], items[0]}, before[1:], items[1:]
		}
		switch {
		case how != restoredList && !c.matters():
			all = append(all, c.old)
			continue
		case c.it != nil:
			all = append(all, c.it)
		}
		changes = append(changes, c)
	}
	if others > 0 {
		sortItems(all)
	}
	return all, changes
}

func itemOf[T Object](object T) *item[T] {
	return &item[T]{key: bound.KeyOf(object), object: object}
}

// size estimates the memory of the objects of s, from a few groups of neighbours,
// which share the most.
func (s *state[T]) size() int64 {
	const groups, group = 8, 48
	step, measured := max(group, s.count/groups), 0
	at := step / 2
	size := intern.Size(func(yield func(T) bool) {
		s.root.all(func(object T) bool {
			if at++; at%step >= group {
				return true
			}
			measured++
			return yield(object)
		})
	})
	return size * int64(s.count) / int64(max(1, measured))
}

func everywhere(string) bool { return true }

// label is a value of the index of Options.IndexLabels.
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
