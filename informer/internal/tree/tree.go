package tree

import (
	"slices"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/wire"
)

// fanout is the maximum number of entries in a node. Larger nodes make reads
// cheaper and writes more expensive, because a write copies one node per level.
const fanout = 32

// Item is one stored object with its key. It is immutable: an update makes
// another item.
type Item[T any] struct {
	Key    types.NamespacedName
	Object T
	// Spec is the fingerprint of the spec as it was received, or zero if it is
	// unknown.
	Spec wire.Fingerprint
}

// CompareKeys returns a negative number if a sorts before b, 0 if they are
// equal, and a positive number otherwise. It compares the namespaces first, and
// then the names.
func CompareKeys(a, b types.NamespacedName) int {
	if a.Namespace != b.Namespace {
		return strings.Compare(a.Namespace, b.Namespace)
	}
	return strings.Compare(a.Name, b.Name)
}

// entry is an item and its object. Iteration over objects reads the entries of
// one array, and not the items.
type entry[T any] struct {
	*Item[T]
	Object T
}

func entryOf[T any](item *Item[T]) entry[T] { return entry[T]{item, item.Object} }

// Node is a persistent B+ tree of items, sorted by key. Nodes do not change
// once they are reachable. Every edit copies the path to its leaf, so each root
// is a snapshot. The nil node is the empty tree.
type Node[T any] struct {
	// items are a leaf's items. In other nodes they are the smallest item of
	// each child.
	items []entry[T]
	kids  []*Node[T] // nil in a leaf
}

// Sort sorts items by key.
func Sort[T any](items []*Item[T]) {
	slices.SortFunc(items, func(a, b *Item[T]) int { return CompareKeys(a.Key, b.Key) })
}

// Build returns the tree of items. They must be sorted and have different keys.
func Build[T any](items []*Item[T]) *Node[T] {
	if len(items) == 0 {
		return nil
	}
	const fill = fanout * 3 / 4
	var level []*Node[T]
	for chunk := range slices.Chunk(items, fill) {
		leaf := &Node[T]{items: make([]entry[T], len(chunk))}
		for i, item := range chunk {
			leaf.items[i] = entryOf(item)
		}
		level = append(level, leaf)
	}
	for len(level) > 1 {
		var parents []*Node[T]
		for chunk := range slices.Chunk(level, fill) {
			parents = append(parents, parent(slices.Clone(chunk)))
		}
		level = parents
	}
	return level[0]
}

func parent[T any](kids []*Node[T]) *Node[T] {
	return &Node[T]{items: firsts(kids), kids: kids}
}

func firsts[T any](kids []*Node[T]) []entry[T] {
	entries := make([]entry[T], len(kids))
	for i, kid := range kids {
		entries[i] = kid.items[0]
	}
	return entries
}

// search returns the position of the first item of n that is not less than key,
// and whether it has that key.
func (n *Node[T]) search(key types.NamespacedName) (int, bool) {
	return slices.BinarySearchFunc(n.items, key, func(e entry[T], key types.NamespacedName) int {
		return CompareKeys(e.Key, key)
	})
}

// child returns the position of the kid whose range includes key.
func (n *Node[T]) child(key types.NamespacedName) int {
	i, exact := n.search(key)
	if exact || i == 0 {
		return i
	}
	return i - 1
}

// Get returns the item of key, or nil.
func (n *Node[T]) Get(key types.NamespacedName) *Item[T] {
	if n == nil {
		return nil
	}
	for n.kids != nil {
		n = n.kids[n.child(key)]
	}
	if i, ok := n.search(key); ok {
		return n.items[i].Item
	}
	return nil
}

// With returns n with an item added. It replaces the item of the same key, if
// there is one.
func (n *Node[T]) With(item *Item[T]) *Node[T] {
	if n == nil {
		return &Node[T]{items: []entry[T]{entryOf(item)}}
	}
	kids := n.insert(item)
	if len(kids) > 1 {
		return parent(kids)
	}
	return kids[0]
}

// Swap returns a copy of n in which another item replaces old. Both items must
// have the same key. Swap compares and copies less than With does. It returns
// nil if old is nil or not in n.
func (n *Node[T]) Swap(old, item *Item[T]) *Node[T] {
	if n == nil || old == nil {
		return nil
	}
	next, i := &Node[T]{items: n.items}, 0
	if n.kids == nil {
		i = slices.IndexFunc(n.items, func(e entry[T]) bool { return e.Item == old })
	} else {
		i = n.child(item.Key)
		kid := n.kids[i].Swap(old, item)
		if kid == nil {
			return nil
		}
		next.kids = slices.Clone(n.kids)
		next.kids[i] = kid
	}
	if i < 0 {
		return nil
	}
	if n.items[i].Item == old {
		next.items = slices.Clone(n.items)
		next.items[i] = entryOf(item)
	}
	return next
}

// insert returns the nodes that replace n: one node, or two if one node would
// have too many entries.
func (n *Node[T]) insert(item *Item[T]) []*Node[T] {
	if n.kids == nil {
		i, exact := n.search(item.Key)
		end := i
		if exact {
			end++
		}
		return split(&Node[T]{items: splice(n.items, i, end, entryOf(item))})
	}
	i := n.child(item.Key)
	kids := n.kids[i].insert(item)
	return split(n.replace(i, i+1, kids...))
}

// replace returns a copy of n in which kids replace n.kids[low:high].
func (n *Node[T]) replace(low, high int, kids ...*Node[T]) *Node[T] {
	return &Node[T]{items: splice(n.items, low, high, firsts(kids)...), kids: splice(n.kids, low, high, kids...)}
}

// split returns n, or its two halves if it has too many items.
func split[T any](n *Node[T]) []*Node[T] {
	if len(n.items) <= fanout {
		return []*Node[T]{n}
	}
	// The halves get separate arrays, because neither must keep objects of the
	// other alive.
	half := len(n.items) / 2
	left, right := &Node[T]{items: slices.Clone(n.items[:half])}, &Node[T]{items: slices.Clone(n.items[half:])}
	if n.kids != nil {
		left.kids, right.kids = slices.Clone(n.kids[:half]), slices.Clone(n.kids[half:])
	}
	return []*Node[T]{left, right}
}

// Without returns n without the item of key.
func (n *Node[T]) Without(key types.NamespacedName) *Node[T] {
	if n.Get(key) == nil {
		return n
	}
	n = n.remove(key)
	for n != nil && len(n.kids) == 1 {
		n = n.kids[0]
	}
	return n
}

// remove returns n without the item of key. The item must be in n. It returns
// nil if the item was the only one.
func (n *Node[T]) remove(key types.NamespacedName) *Node[T] {
	i := n.child(key)
	if n.kids == nil {
		if len(n.items) == 1 {
			return nil
		}
		return &Node[T]{items: splice(n.items, i, i+1)}
	}
	kid := n.kids[i].remove(key)
	switch {
	case kid == nil && len(n.kids) == 1:
		return nil
	case kid == nil:
		return n.replace(i, i+1)
	case len(kid.items) >= fanout/4 || len(n.kids) == 1:
		return n.replace(i, i+1, kid)
	case i > 0:
		return n.replace(i-1, i+1, merge(n.kids[i-1], kid)...)
	default:
		return n.replace(i, i+2, merge(kid, n.kids[i+1])...)
	}
}

// merge returns two neighbours as one node, or as two of about equal size if
// they have too many items for one.
func merge[T any](left, right *Node[T]) []*Node[T] {
	return split(&Node[T]{items: slices.Concat(left.items, right.items), kids: slices.Concat(left.kids, right.kids)})
}

// splice returns a copy of list in which the elements in replacement replace
// list[low:high].
func splice[E any](list []E, low, high int, replacement ...E) []E {
	return slices.Concat(list[:low], replacement, list[high:])
}

// All calls yield for the objects of n in order, and reports whether to
// continue.
func (n *Node[T]) All(yield func(T) bool) bool {
	if n == nil {
		return true
	}
	if n.kids != nil {
		for _, kid := range n.kids {
			if !kid.All(yield) {
				return false
			}
		}
		return true
	}
	for _, e := range n.items {
		if !yield(e.Object) {
			return false
		}
	}
	return true
}

// Namespace calls yield for the objects of one namespace in order, and reports
// whether to continue with the next node.
func (n *Node[T]) Namespace(name string, yield func(T) bool) bool {
	if n == nil {
		return true
	}
	first := types.NamespacedName{Namespace: name}
	if n.kids != nil {
		for _, kid := range n.kids[n.child(first):] {
			if kid.items[0].Key.Namespace > name || !kid.Namespace(name, yield) {
				return false
			}
		}
		return true
	}
	start, _ := n.search(first)
	end := n.endOf(name, start)
	for _, e := range n.items[start:end] {
		if !yield(e.Object) {
			return false
		}
	}
	return end == len(n.items)
}

// endOf returns the position after the last item of a namespace in a leaf.
// start is the position of the first one. endOf reads few items, because each
// read is a cache miss.
func (n *Node[T]) endOf(namespace string, start int) int {
	end := len(n.items)
	if start == end || n.items[end-1].Key.Namespace == namespace {
		return end
	}
	isOther := func(offset int) bool { return n.items[start+offset].Key.Namespace != namespace }
	return start + sort.Search(end-start, isOther)
}

// AppendItems appends the items of n to items, in the order of their keys, and
// returns the result.
func (n *Node[T]) AppendItems(items []*Item[T]) []*Item[T] {
	if n == nil {
		return items
	}
	if n.kids == nil {
		for _, e := range n.items {
			items = append(items, e.Item)
		}
		return items
	}
	for _, kid := range n.kids {
		items = kid.AppendItems(items)
	}
	return items
}

// Change is one change of one object. Old is nil if the object is new, and New
// is nil if it was deleted.
type Change[T any] struct{ Old, New *Item[T] }
