package informer

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// A place is that of an item in a list: the number of its namespace in their
// order, and how many items stand before it.
type place[T any] struct {
	it                *item[T]
	namespace, before uint32
}

// sortItems sorts items by key. Items of one key stay in their order.
//
// A streamed list comes in no order, 100,000 objects at a time: namespaces are
// compared by number, so that most comparisons need not look at the items.
func sortItems[T any](items []*item[T]) {
	if slices.IsSortedFunc(items, func(a, b *item[T]) int { return compareKeys(a.key, b.key) }) {
		return
	}
	number := map[string]uint32{}
	for _, it := range items {
		number[it.key.Namespace] = 0
	}
	for n, namespace := range slices.Sorted(maps.Keys(number)) {
		number[namespace] = uint32(n) //nolint:gosec // there are not that many
	}
	places, sorted := make([]place[T], len(items)), make([]*place[T], len(items))
	for n, it := range items {
		places[n] = place[T]{it, number[it.key.Namespace], uint32(n)} //nolint:gosec // there are not that many
		sorted[n] = &places[n]
	}
	slices.SortFunc(sorted, func(a, b *place[T]) int {
		if a.namespace != b.namespace {
			return cmp.Compare(a.namespace, b.namespace)
		}
		if order := strings.Compare(a.it.key.Name, b.it.key.Name); order != 0 {
			return order
		}
		return cmp.Compare(a.before, b.before)
	})
	for n, at := range sorted {
		items[n] = at.it
	}
}
