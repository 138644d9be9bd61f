package tree

import (
	"hash/maphash"
	"math/bits"
	"reflect"
	"slices"
)

// Index finds objects by values that a function computes from them. It is
// immutable.
type Index[T any] interface {
	// After returns the index after changes. It panics if the function panics.
	After(changes []Change[T]) Index[T]
	// Try calls the function for an object. It panics if the function panics.
	Try(object T)
}

// Posting contains the objects that an index stores under one of its values.
type Posting[T any] struct {
	Root  *Node[T]
	Count int
}

// put returns a posting with the item c.New in addition to the items of p, or
// in place of c.Old if p has it. It does not modify p.
func (p Posting[T]) put(c Change[T]) Posting[T] {
	if root := p.Root.Swap(c.Old, c.New); root != nil {
		return Posting[T]{root, p.Count}
	}
	if p.Root.Get(c.New.Key) == nil {
		p.Count++
	}
	return Posting[T]{p.Root.With(c.New), p.Count}
}

func (p Posting[T]) remove(item *Item[T]) Posting[T] {
	if p.Root.Get(item.Key) != nil {
		p.Count--
	}
	return Posting[T]{p.Root.Without(item.Key), p.Count}
}

// Postings is an index by the values that a function computes.
type Postings[T any, V comparable] struct {
	compute func(T) []V
	// isOdd is true if a value of type V may be unusable as the key of a map,
	// or may not be equal to itself; see mayBeOdd.
	isOdd bool
	seed  maphash.Seed
	root  *trie[V, Posting[T]]
}

// NewPostings returns an empty index by the values that compute returns.
func NewPostings[T any, V comparable](compute func(T) []V) *Postings[T, V] {
	return &Postings[T, V]{compute: compute, isOdd: mayBeOdd(reflect.TypeFor[V]()), seed: maphash.MakeSeed()}
}

// mayBeOdd reports whether a value of type t may be unusable as the key of a
// map, such as a slice in an interface, or may not be equal to itself, such as
// NaN. It does not look at the fields of structs and the elements of arrays: it
// returns true for all of these types.
func mayBeOdd(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface, reflect.Struct, reflect.Array,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return true
	}
	return false
}

// values calls the function for an object. It panics if the function panics, or
// if a value cannot be the key of a map. It leaves out values that are not
// equal to themselves, because they could be neither found nor removed.
func (p *Postings[T, V]) values(object T) []V {
	values := p.compute(object)
	if !p.isOdd {
		return values
	}
	kept := make([]V, 0, len(values))
	for _, value := range values {
		maphash.Comparable(p.seed, value)
		if value == value { //nolint:gocritic // false for NaN
			kept = append(kept, value)
		}
	}
	return kept
}

// Get returns the posting of a value.
func (p *Postings[T, V]) Get(value V) Posting[T] {
	known, _ := p.root.get(maphash.Comparable(p.seed, value), value)
	return known
}

// manyChanges is the smallest number of changes for which it is cheaper to
// group them by value first.
const manyChanges = 64

// After returns a new index that results from applying changes to p. It does
// not modify p.
func (p *Postings[T, V]) After(changes []Change[T]) Index[T] {
	next := *p
	if len(changes) >= manyChanges {
		next.applyMany(changes)
		return &next
	}
	for _, c := range changes {
		var oldValues, newValues []V
		if c.Old != nil {
			oldValues = p.storedValues(c.Old.Object)
		}
		if c.New != nil {
			newValues = p.values(c.New.Object)
		}
		for _, value := range oldValues {
			if !slices.Contains(newValues, value) {
				next.edit(value, func(p Posting[T]) Posting[T] { return p.remove(c.Old) })
			}
		}
		for _, value := range newValues {
			next.edit(value, func(p Posting[T]) Posting[T] { return p.put(c) })
		}
	}
	return &next
}

// storedValues returns the values that the index has for a stored object. It
// returns nil if the function that computes them panics, because the index does
// not contain such an object.
func (p *Postings[T, V]) storedValues(object T) (values []V) {
	defer func() { _ = recover() }()
	return p.values(object)
}

// Try calls the function that computes the values of object and drops the
// result, to find out whether the function panics for it, or whether a value
// cannot be the key of a map.
func (p *Postings[T, V]) Try(object T) { p.values(object) }

// edit calls change with the posting of value, and replaces the posting with
// the result.
func (p *Postings[T, V]) edit(value V, change func(Posting[T]) Posting[T]) {
	hash := maphash.Comparable(p.seed, value)
	known, _ := p.root.get(hash, value)
	if known = change(known); known.Root == nil {
		p.root = p.root.remove(hash, value, 0)
		return
	}
	p.root = p.root.put(&leaf[V, Posting[T]]{hash: hash, value: value, known: known}, 0)
}

// applyMany is like After, for many changes. It groups them by value, and edits
// each posting once.
func (p *Postings[T, V]) applyMany(changes []Change[T]) {
	edited := map[V]map[*Item[T]]bool{} // true if the item stays
	note := func(item *Item[T], values []V, stays bool) {
		for _, value := range values {
			if edited[value] == nil {
				edited[value] = map[*Item[T]]bool{}
			}
			edited[value][item] = stays
		}
	}
	for _, c := range changes {
		if c.Old != nil {
			note(c.Old, p.storedValues(c.Old.Object), false)
		}
		if c.New != nil {
			note(c.New, p.values(c.New.Object), true)
		}
	}
	for value, items := range edited {
		p.edit(value, func(known Posting[T]) Posting[T] {
			kept := known.Root.AppendItems(nil)
			kept = slices.DeleteFunc(kept, func(item *Item[T]) bool {
				_, touched := items[item]
				return touched
			})
			for item, stays := range items {
				if stays {
					kept = append(kept, item)
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
	kids []branch[V, P] // the branches, in the order of their bits
}

// branch is either a deeper trie or one leaf.
type branch[V comparable, P any] struct {
	deeper *trie[V, P]
	leaf   *leaf[V, P]
}

// leaf contains one value. next is a leaf with a different value and the same
// hash. Such leaves are rare.
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
func (t *trie[V, P]) position(hash uint64, depth uint) (bit uint32, index int) {
	bit = 1 << (hash >> depth & (1<<trieBits - 1))
	return bit, bits.OnesCount32(t.set & (bit - 1))
}

// get returns the posting of value. The hash selects a branch with five bits at
// each depth. Values with equal hashes are in one list of leaves.
func (t *trie[V, P]) get(hash uint64, value V) (known P, ok bool) {
	for depth := uint(0); t != nil; depth += trieBits {
		bit, index := t.position(hash, depth)
		if t.set&bit == 0 {
			return known, false
		}
		b := t.kids[index]
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

// put returns t with l, which replaces the leaf of the same value if t has one.
// put sets l.next.
func (t *trie[V, P]) put(l *leaf[V, P], depth uint) *trie[V, P] {
	if t == nil {
		t = &trie[V, P]{}
	}
	bit, index := t.position(l.hash, depth)
	if t.set&bit == 0 {
		return &trie[V, P]{set: t.set | bit, kids: splice(t.kids, index, index, branch[V, P]{leaf: l})}
	}
	b := t.kids[index]
	switch old := b.leaf; {
	case old == nil:
		b.deeper = b.deeper.put(l, depth+trieBits)
	case old.hash == l.hash:
		l.next = old.remove(l.value)
		b.leaf = l
	default:
		b = branch[V, P]{deeper: (*trie[V, P])(nil).put(old, depth+trieBits).put(l, depth+trieBits)}
	}
	return &trie[V, P]{set: t.set, kids: splice(t.kids, index, index+1, b)}
}

// remove returns t without value, or nil if the result is empty.
func (t *trie[V, P]) remove(hash uint64, value V, depth uint) *trie[V, P] {
	if t == nil {
		return nil
	}
	bit, index := t.position(hash, depth)
	if t.set&bit == 0 {
		return t
	}
	b := t.kids[index]
	if b.leaf == nil {
		b.deeper = b.deeper.remove(hash, value, depth+trieBits)
		if child := b.deeper; child != nil && len(child.kids) == 1 && child.kids[0].leaf != nil {
			b = child.kids[0] // a leaf is as high as possible
		}
	} else if b.leaf.hash == hash {
		b.leaf = b.leaf.remove(value)
	}
	switch {
	case b != (branch[V, P]{}):
		return &trie[V, P]{set: t.set, kids: splice(t.kids, index, index+1, b)}
	case len(t.kids) == 1:
		return nil
	default:
		return &trie[V, P]{set: t.set &^ bit, kids: splice(t.kids, index, index+1)}
	}
}

func (l *leaf[V, P]) remove(value V) *leaf[V, P] {
	if l == nil {
		return nil
	}
	if l.value == value {
		return l.next
	}
	out := *l
	out.next = l.next.remove(value)
	return &out
}
