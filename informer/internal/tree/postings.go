package tree

import (
	"hash/maphash"
	"math/bits"
	"slices"
)

// Index finds objects by values that a function computes from them. It is
// immutable.
type Index[T any] interface {
	// After returns the index after changes. It panics if the function does.
	After(changes []Change[T]) Index[T]
	// Try calls the function for an object, and panics if it does.
	Try(object T)
}

// Posting contains the objects with one value.
type Posting[T any] struct {
	Root  *Node[T]
	Count int
}

// with returns p after a change to an item with its value.
func (p Posting[T]) with(c Change[T]) Posting[T] {
	if root := p.Root.Swap(c.Old, c.New); root != nil {
		return Posting[T]{root, p.Count}
	}
	if p.Root.Get(c.New.Key) == nil {
		p.Count++
	}
	return Posting[T]{p.Root.With(c.New), p.Count}
}

func (p Posting[T]) without(it *Item[T]) Posting[T] {
	if p.Root.Get(it.Key) != nil {
		p.Count--
	}
	return Posting[T]{p.Root.Without(it.Key), p.Count}
}

// Postings is an index by the values that a function computes.
type Postings[T any, V comparable] struct {
	of   func(T) []V
	seed maphash.Seed
	root *trie[V, Posting[T]]
}

// NewPostings returns an empty index by the values that of computes.
func NewPostings[T any, V comparable](of func(T) []V) *Postings[T, V] {
	return &Postings[T, V]{of: of, seed: maphash.MakeSeed()}
}

// Get returns the posting of a value.
func (p *Postings[T, V]) Get(value V) Posting[T] {
	known, _ := p.root.get(maphash.Comparable(p.seed, value), value)
	return known
}

// manyChanges is the number of changes from which it is cheaper to apply them
// value by value.
const manyChanges = 64

// After returns the index after changes.
func (p *Postings[T, V]) After(changes []Change[T]) Index[T] {
	next := *p
	if len(changes) >= manyChanges {
		next.applyMany(changes)
		return &next
	}
	for _, c := range changes {
		var before, after []V
		if c.Old != nil {
			before = p.ofStored(c.Old.Object)
		}
		if c.New != nil {
			after = p.of(c.New.Object)
		}
		for _, value := range before {
			if !slices.Contains(after, value) {
				next.edit(value, func(p Posting[T]) Posting[T] { return p.without(c.Old) })
			}
		}
		for _, value := range after {
			next.edit(value, func(p Posting[T]) Posting[T] { return p.with(c) })
		}
	}
	return &next
}

// ofStored returns the values of a stored object. It returns nil if the
// function panics, because the index does not contain such an object.
func (p *Postings[T, V]) ofStored(object T) (values []V) {
	defer func() { _ = recover() }()
	return p.of(object)
}

// Try calls the function for an object.
func (p *Postings[T, V]) Try(object T) { p.of(object) }

// edit replaces the posting of one value.
func (p *Postings[T, V]) edit(value V, edit func(Posting[T]) Posting[T]) {
	hash := maphash.Comparable(p.seed, value)
	known, _ := p.root.get(hash, value)
	if known = edit(known); known.Root == nil {
		p.root = p.root.without(hash, value, 0)
		return
	}
	p.root = p.root.with(&leaf[V, Posting[T]]{hash: hash, value: value, known: known}, 0)
}

// applyMany applies changes after grouping them by value.
func (p *Postings[T, V]) applyMany(changes []Change[T]) {
	edited := map[V]map[*Item[T]]bool{} // true if the item stays
	note := func(it *Item[T], values []V, stays bool) {
		for _, value := range values {
			if edited[value] == nil {
				edited[value] = map[*Item[T]]bool{}
			}
			edited[value][it] = stays
		}
	}
	for _, c := range changes {
		if c.Old != nil {
			note(c.Old, p.ofStored(c.Old.Object), false)
		}
		if c.New != nil {
			note(c.New, p.of(c.New.Object), true)
		}
	}
	for value, items := range edited {
		p.edit(value, func(known Posting[T]) Posting[T] {
			kept := known.Root.AppendItems(nil)
			kept = slices.DeleteFunc(kept, func(it *Item[T]) bool {
				_, touched := items[it]
				return touched
			})
			for it, stays := range items {
				if stays {
					kept = append(kept, it)
				}
			}
			Sort(kept)
			return Posting[T]{Build(kept), len(kept)}
		})
	}
}

// trie is a persistent hash map. Its nodes do not change once they are
// reachable. The nil trie is empty.
type trie[V comparable, P any] struct {
	// set has a bit for each of the 32 possible branches.
	set  uint32
	kids []branch[V, P] // in order
}

// branch is either a deeper trie or one leaf.
type branch[V comparable, P any] struct {
	deeper *trie[V, P]
	leaf   *leaf[V, P]
}

// leaf contains one value. next is a leaf with a different value and the same
// hash, which is rare.
type leaf[V comparable, P any] struct {
	hash  uint64
	value V
	known P
	next  *leaf[V, P]
}

// trieBits is the number of hash bits that select a branch.
const trieBits = 5

// position returns the bit of hash's branch at depth, and the branch's index in
// kids.
func (t *trie[V, P]) position(hash uint64, depth uint) (bit uint32, at int) {
	bit = 1 << (hash >> depth & (1<<trieBits - 1))
	return bit, bits.OnesCount32(t.set & (bit - 1))
}

// get returns the posting of value. The hash selects a branch with five bits at
// each depth. Values with equal hashes are in one list of leaves.
func (t *trie[V, P]) get(hash uint64, value V) (known P, ok bool) {
	for depth := uint(0); t != nil; depth += trieBits {
		bit, at := t.position(hash, depth)
		if t.set&bit == 0 {
			return known, false
		}
		b := t.kids[at]
		if b.leaf == nil {
			t = b.deeper
			continue
		}
		for l := b.leaf; l != nil && l.hash == hash; l = l.next {
			if l.value == value {
				return l.known, true
			}
		}
		return known, false
	}
	return known, false
}

// with returns t with l, which replaces the leaf of the same value.
func (t *trie[V, P]) with(l *leaf[V, P], depth uint) *trie[V, P] {
	if t == nil {
		t = &trie[V, P]{}
	}
	bit, at := t.position(l.hash, depth)
	if t.set&bit == 0 {
		return &trie[V, P]{set: t.set | bit, kids: splice(t.kids, at, at, branch[V, P]{leaf: l})}
	}
	b := t.kids[at]
	switch other := b.leaf; {
	case other == nil:
		b.deeper = b.deeper.with(l, depth+trieBits)
	case other.hash == l.hash:
		l.next = other.without(l.value)
		b.leaf = l
	default:
		b = branch[V, P]{deeper: (*trie[V, P])(nil).with(other, depth+trieBits).with(l, depth+trieBits)}
	}
	return &trie[V, P]{set: t.set, kids: splice(t.kids, at, at+1, b)}
}

// without returns t without value, or nil if the result is empty.
func (t *trie[V, P]) without(hash uint64, value V, depth uint) *trie[V, P] {
	if t == nil {
		return nil
	}
	bit, at := t.position(hash, depth)
	if t.set&bit == 0 {
		return t
	}
	b := t.kids[at]
	if b.leaf == nil {
		b.deeper = b.deeper.without(hash, value, depth+trieBits)
		if only := b.deeper; only != nil && len(only.kids) == 1 && only.kids[0].leaf != nil {
			b = only.kids[0] // a leaf is as high as possible
		}
	} else if b.leaf.hash == hash {
		b.leaf = b.leaf.without(value)
	}
	switch {
	case b != (branch[V, P]{}):
		return &trie[V, P]{set: t.set, kids: splice(t.kids, at, at+1, b)}
	case len(t.kids) == 1:
		return nil
	default:
		return &trie[V, P]{set: t.set &^ bit, kids: splice(t.kids, at, at+1)}
	}
}

func (l *leaf[V, P]) without(value V) *leaf[V, P] {
	if l == nil {
		return nil
	}
	if l.value == value {
		return l.next
	}
	out := *l
	out.next = l.next.without(value)
	return &out
}
