package informer

import (
	"hash/maphash"
	"math/bits"
	"slices"
)

// index finds the objects of a state by the values that a function gives them.
type index[T Object] interface {
	// after returns the index after changes.
	after(changes []change[T]) index[T]
	// try returns an error if the function panics for an object.
	try(object T) *refusal
}

// posting holds the objects of one value.
type posting[T Object] struct {
	root  *node[T]
	count int
}

// with returns p after a change to an item of its value.
func (p posting[T]) with(c change[T]) posting[T] {
	if root := p.root.swap(c.old, c.it); root != nil {
		return posting[T]{root, p.count}
	}
	if p.root.get(c.it.key) == nil {
		p.count++
	}
	return posting[T]{p.root.with(c.it), p.count}
}

func (p posting[T]) without(it *item[T]) posting[T] {
	if p.root.get(it.key) != nil {
		p.count--
	}
	return posting[T]{p.root.without(it.key), p.count}
}

// postings is the index of the values that of gives objects. It is immutable.
type postings[T Object, V comparable] struct {
	of   func(T) []V
	seed maphash.Seed
	root *trie[V, posting[T]]
}

func newPostings[T Object, V comparable](of func(T) []V) *postings[T, V] {
	return &postings[T, V]{of: of, seed: maphash.MakeSeed()}
}

func (p *postings[T, V]) get(value V) posting[T] {
	known, _ := p.root.get(maphash.Comparable(p.seed, value), value)
	return known
}

// manyChanges are cheaper to apply value by value than one by one.
const manyChanges = 64

// after returns the index after changes.
func (p *postings[T, V]) after(changes []change[T]) index[T] {
	next := *p
	if len(changes) >= manyChanges {
		next.applyMany(changes)
		return &next
	}
	for _, c := range changes {
		var before, after []V
		if c.old != nil {
			before = p.ofStored(c.old.object)
		}
		if c.it != nil {
			after = p.of(c.it.object)
		}
		for _, value := range before {
			if !slices.Contains(after, value) {
				next.edit(value, func(p posting[T]) posting[T] { return p.without(c.old) })
			}
		}
		for _, value := range after {
			next.edit(value, func(p posting[T]) posting[T] { return p.with(c) })
		}
	}
	return &next
}

// ofStored returns the values of an object that is stored: none if the function panics,
// since the index does not have such an object.
func (p *postings[T, V]) ofStored(object T) (values []V) {
	_ = caught(func() { values = p.of(object) })
	return values
}

// try returns an error if the function panics for an object.
func (p *postings[T, V]) try(object T) *refusal { return caught(func() { p.of(object) }) }

// caught calls f, which calls functions of indexes, and returns its panic.
func caught(f func()) (why *refusal) {
	defer func() {
		if p := recover(); p != nil {
			why = panicked(causeIndex, "the function of an index", p)
		}
	}()
	f()
	return nil
}

// edit replaces the posting of one value.
func (p *postings[T, V]) edit(value V, edit func(posting[T]) posting[T]) {
	hash := maphash.Comparable(p.seed, value)
	known, _ := p.root.get(hash, value)
	if known = edit(known); known.root == nil {
		p.root = p.root.without(hash, value, 0)
		return
	}
	p.root = p.root.with(&leaf[V, posting[T]]{hash: hash, value: value, known: known}, 0)
}

// applyMany groups the changes by value first.
func (p *postings[T, V]) applyMany(changes []change[T]) {
	edited := map[V]map[*item[T]]bool{} // whether the item stays
	note := func(it *item[T], values []V, stays bool) {
		for _, value := range values {
			if edited[value] == nil {
				edited[value] = map[*item[T]]bool{}
			}
			edited[value][it] = stays
		}
	}
	for _, c := range changes {
		if c.old != nil {
			note(c.old, p.ofStored(c.old.object), false)
		}
		if c.it != nil {
			note(c.it, p.of(c.it.object), true)
		}
	}
	for value, items := range edited {
		p.edit(value, func(known posting[T]) posting[T] {
			kept := known.root.appendItems(nil)
			kept = slices.DeleteFunc(kept, func(it *item[T]) bool {
				_, touched := items[it]
				return touched
			})
			for it, stays := range items {
				if stays {
					kept = append(kept, it)
				}
			}
			sortItems(kept)
			return posting[T]{build(kept), len(kept)}
		})
	}
}

// trie is a persistent hash map: nodes never change once they are reachable. The
// nil trie is empty.
type trie[V comparable, P any] struct {
	// set has a bit for each of the 32 branches that exists.
	set  uint32
	kids []branch[V, P] // in order
}

// branch is either a deeper trie or one leaf.
type branch[V comparable, P any] struct {
	deeper *trie[V, P]
	leaf   *leaf[V, P]
}

// leaf holds one value; next is a different one with the same hash, nearly always nil.
type leaf[V comparable, P any] struct {
	hash  uint64
	value V
	known P
	next  *leaf[V, P]
}

// trieBits of the hash select a branch.
const trieBits = 5

// position returns the bit of hash's branch at depth, and its index in kids.
func (t *trie[V, P]) position(hash uint64, depth uint) (bit uint32, at int) {
	bit = 1 << (hash >> depth & (1<<trieBits - 1))
	return bit, bits.OnesCount32(t.set & (bit - 1))
}

// get returns the leaf stored for value, whose hash takes five bits at each depth. Values
// with equal hashes are in one leaf, one after the other.
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

// with returns t with l, in place of the leaf stored for its value.
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

// without returns t without value: nil if nothing is left.
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
