package informer

import (
	"slices"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/intern"
	"github.com/homeostat/homeostat/internal/wire"
)

// fanout is the maximal number of entries in a node. Larger nodes make reads
// cheaper and writes more expensive: a write copies one node per level.
const fanout = 64

// item is one object of the store with its key. It is immutable: an update makes
// another item.
type item[T any] struct {
	key    types.NamespacedName
	object T
	// spec is the fingerprint of the spec as it was received; zero if unknown.
	spec wire.Fingerprint
}

func compareKeys(a, b types.NamespacedName) int {
	if a.Namespace != b.Namespace {
		return strings.Compare(a.Namespace, b.Namespace)
	}
	return strings.Compare(a.Name, b.Name)
}

// entry is an item beside its object: iteration that only yields objects finds
// them in one array and does not read the items.
type entry[T any] struct {
	*item[T]
	object T
}

func entryOf[T any](it *item[T]) entry[T] { return entry[T]{it, it.object} }

// node is a persistent B+ tree of items, sorted by key. Nodes never change once
// they are reachable: every edit copies the path to its leaf, so that each root is
// a snapshot. The nil node is the empty tree.
type node[T any] struct {
	// items are a leaf's items; otherwise the smallest item of each child.
	items []entry[T]
	kids  []*node[T] // nil in a leaf
}

func sortItems[T any](items []*item[T]) {
	slices.SortFunc(items, func(a, b *item[T]) int { return compareKeys(a.key, b.key) })
}

// build returns the tree of items, which are sorted and have different keys.
func build[T any](items []*item[T]) *node[T] {
	if len(items) == 0 {
		return nil
	}
	const fill = fanout * 3 / 4
	var level []*node[T]
	for chunk := range slices.Chunk(items, fill) {
		leaf := &node[T]{items: make([]entry[T], len(chunk))}
		for i, it := range chunk {
			leaf.items[i] = entryOf(it)
		}
		level = append(level, leaf)
	}
	for len(level) > 1 {
		var above []*node[T]
		for chunk := range slices.Chunk(level, fill) {
			above = append(above, parent(slices.Clone(chunk)))
		}
		level = above
	}
	return level[0]
}

func parent[T any](kids []*node[T]) *node[T] {
	return &node[T]{items: firsts(kids), kids: kids}
}

func firsts[T any](kids []*node[T]) []entry[T] {
	all := make([]entry[T], len(kids))
	for i, kid := range kids {
		all[i] = kid.items[0]
	}
	return all
}

// search returns the position of the first item of n that is not less than key,
// and whether it has that key.
func (n *node[T]) search(key types.NamespacedName) (int, bool) {
	return slices.BinarySearchFunc(n.items, key, func(e entry[T], key types.NamespacedName) int {
		return compareKeys(e.key, key)
	})
}

// child returns the position of the kid whose range includes key.
func (n *node[T]) child(key types.NamespacedName) int {
	at, exact := n.search(key)
	if exact || at == 0 {
		return at
	}
	return at - 1
}

func (n *node[T]) get(key types.NamespacedName) *item[T] {
	if n == nil {
		return nil
	}
	for n.kids != nil {
		n = n.kids[n.child(key)]
	}
	if at, ok := n.search(key); ok {
		return n.items[at].item
	}
	return nil
}

// with returns n with it in place of the item of the same key, if there is one.
func (n *node[T]) with(it *item[T]) *node[T] {
	if n == nil {
		return &node[T]{items: []entry[T]{entryOf(it)}}
	}
	kids := n.insert(it)
	if len(kids) > 1 {
		return parent(kids)
	}
	return kids[0]
}

// swap returns n with it in place of old, which has the same key. It compares and
// copies less than with does. It returns nil if old is nil or not in n.
func (n *node[T]) swap(old, it *item[T]) *node[T] {
	if n == nil || old == nil {
		return nil
	}
	next, at := &node[T]{items: n.items}, 0
	if n.kids == nil {
		at = slices.IndexFunc(n.items, func(e entry[T]) bool { return e.item == old })
	} else {
		at = n.child(it.key)
		kid := n.kids[at].swap(old, it)
		if kid == nil {
			return nil
		}
		next.kids = slices.Clone(n.kids)
		next.kids[at] = kid
	}
	if at < 0 {
		return nil
	}
	if n.items[at].item == old {
		next.items = slices.Clone(n.items)
		next.items[at] = entryOf(it)
	}
	return next
}

// insert returns what replaces n: one node, or two when it was full.
func (n *node[T]) insert(it *item[T]) []*node[T] {
	if n.kids == nil {
		at, exact := n.search(it.key)
		end := at
		if exact {
			end++
		}
		return split(&node[T]{items: splice(n.items, at, end, entryOf(it))})
	}
	at := n.child(it.key)
	kids := n.kids[at].insert(it)
	return split(n.replace(at, at+1, kids...))
}

// replace returns n with kids in place of those from low to high.
func (n *node[T]) replace(low, high int, kids ...*node[T]) *node[T] {
	return &node[T]{items: splice(n.items, low, high, firsts(kids)...), kids: splice(n.kids, low, high, kids...)}
}

// split returns n alone, or two halves of it if it has too many items.
func split[T any](n *node[T]) []*node[T] {
	if len(n.items) <= fanout {
		return []*node[T]{n}
	}
	// Separate arrays: otherwise one half would keep objects of the other alive.
	half := len(n.items) / 2
	left, right := &node[T]{items: slices.Clone(n.items[:half])}, &node[T]{items: slices.Clone(n.items[half:])}
	if n.kids != nil {
		left.kids, right.kids = slices.Clone(n.kids[:half]), slices.Clone(n.kids[half:])
	}
	return []*node[T]{left, right}
}

// without returns n without the item of key.
func (n *node[T]) without(key types.NamespacedName) *node[T] {
	if n.get(key) == nil {
		return n
	}
	n = n.remove(key)
	for n != nil && len(n.kids) == 1 {
		n = n.kids[0]
	}
	return n
}

// remove returns n without the item of key, which must be in it: nil if it was the
// only one.
func (n *node[T]) remove(key types.NamespacedName) *node[T] {
	at := n.child(key)
	if n.kids == nil {
		if len(n.items) == 1 {
			return nil
		}
		return &node[T]{items: splice(n.items, at, at+1)}
	}
	kid := n.kids[at].remove(key)
	switch {
	case kid == nil && len(n.kids) == 1:
		return nil
	case kid == nil:
		return n.replace(at, at+1)
	case len(kid.items) >= fanout/4 || len(n.kids) == 1:
		return n.replace(at, at+1, kid)
	case at > 0:
		return n.replace(at-1, at+1, merge(n.kids[at-1], kid)...)
	default:
		return n.replace(at, at+2, merge(kid, n.kids[at+1])...)
	}
}

// merge returns two neighbours as one node, or as two of equal size.
func merge[T any](left, right *node[T]) []*node[T] {
	return split(&node[T]{items: slices.Concat(left.items, right.items), kids: slices.Concat(left.kids, right.kids)})
}

// splice returns a copy of all with instead in place of all[low:high].
func splice[E any](all []E, low, high int, instead ...E) []E {
	return slices.Concat(all[:low], instead, all[high:])
}

// all calls yield for the objects of n in order, and reports whether to go on.
func (n *node[T]) all(yield func(T) bool) bool {
	if n == nil {
		return true
	}
	if n.kids != nil {
		for _, kid := range n.kids {
			if !kid.all(yield) {
				return false
			}
		}
		return true
	}
	for _, e := range n.items {
		if !yield(e.object) {
			return false
		}
	}
	return true
}

// namespace calls yield for the objects of one namespace in order, and reports
// whether to go on with the next node.
func (n *node[T]) namespace(name string, yield func(T) bool) bool {
	if n == nil {
		return true
	}
	first := types.NamespacedName{Namespace: name}
	if n.kids != nil {
		for _, kid := range n.kids[n.child(first):] {
			if kid.items[0].key.Namespace > name || !kid.namespace(name, yield) {
				return false
			}
		}
		return true
	}
	at, _ := n.search(first)
	end := n.endOf(name, at)
	for _, e := range n.items[at:end] {
		if !yield(e.object) {
			return false
		}
	}
	return end == len(n.items)
}

// endOf returns the position after the last item of a namespace in a leaf, where
// at is the position of the first one. It reads few items: each is a cache miss.
func (n *node[T]) endOf(namespace string, at int) int {
	end := len(n.items)
	if at == end || n.items[end-1].key.Namespace == namespace {
		return end
	}
	return at + sort.Search(end-at, func(more int) bool { return n.items[at+more].key.Namespace != namespace })
}

// appendItems appends the items of n in order.
func (n *node[T]) appendItems(to []*item[T]) []*item[T] {
	if n == nil {
		return to
	}
	if n.kids == nil {
		for _, e := range n.items {
			to = append(to, e.item)
		}
		return to
	}
	for _, kid := range n.kids {
		to = kid.appendItems(to)
	}
	return to
}

// change is one change of one object: old is nil if it was not known, it is nil
// if it was deleted.
type change[T Object] struct{ old, it *item[T] }

// matters reports whether anything has changed. Only fakes leave the
// resourceVersion empty.
func (c change[T]) matters() bool {
	if c.old == nil || c.it == nil {
		return true
	}
	a, b := c.old.object, c.it.object
	if a.GetUID() != b.GetUID() || a.GetResourceVersion() != b.GetResourceVersion() {
		return true
	}
	return a.GetResourceVersion() == "" && (intern.Lazy(b) || !intern.Alike(a, b))
}

// isBack reports whether a change would bring back an earlier state.
func (c change[T]) isBack() bool {
	return c.old != nil && older(c.it.object.GetResourceVersion(), c.old.object.GetResourceVersion())
}
