package informer

import (
	"math/bits"
)

// A trie is a persistent map from hashed values to what is known of them.
// Nodes never change once they are reachable. The nil trie is empty.
type trie[V comparable, P any] struct {
	set  uint32         // which of the 32 branches there are
	kids []branch[V, P] // in order
}

// A branch is either a deeper trie or one leaf.
type branch[V comparable, P any] struct {
	deeper *trie[V, P]
	leaf   *leaf[V, P]
}

// A leaf holds the values of one hash: nearly always a single one.
type leaf[V comparable, P any] struct {
	hash  uint64
	value V
	known P
	next  *leaf[V, P]
}

// trieBits of the hash choose a branch.
const trieBits = 5

// position returns the bit of hash's branch at depth, and its place in kids.
func (t *trie[V, P]) position(hash uint64, depth uint) (bit uint32, at int) {
	bit = 1 << (hash >> depth & (1<<trieBits - 1))
	return bit, bits.OnesCount32(t.set & (bit - 1))
}

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

// with returns t with known as what is known of value.
func (t *trie[V, P]) with(hash uint64, value V, known P, depth uint) *trie[V, P] {
	fresh := &leaf[V, P]{hash: hash, value: value, known: known}
	if t == nil {
		t = &trie[V, P]{}
	}
	bit, at := t.position(hash, depth)
	if t.set&bit == 0 {
		return &trie[V, P]{set: t.set | bit, kids: splice(t.kids, at, at, branch[V, P]{leaf: fresh})}
	}
	b := t.kids[at]
	switch {
	case b.leaf == nil:
		b.deeper = b.deeper.with(hash, value, known, depth+trieBits)
	case b.leaf.hash == hash:
		fresh.next = b.leaf.without(value)
		b.leaf = fresh
	default:
		old := b.leaf
		b = branch[V, P]{deeper: (*trie[V, P])(nil).with(hash, value, known, depth+trieBits)}
		b.deeper = b.deeper.adopt(old, depth+trieBits)
	}
	return &trie[V, P]{set: t.set, kids: splice(t.kids, at, at+1, b)}
}

// adopt returns t, which has a single leaf of another hash, with l.
func (t *trie[V, P]) adopt(l *leaf[V, P], depth uint) *trie[V, P] {
	bit, at := t.position(l.hash, depth)
	if t.set&bit == 0 {
		return &trie[V, P]{set: t.set | bit, kids: splice(t.kids, at, at, branch[V, P]{leaf: l})}
	}
	other := t.kids[at].leaf
	deeper := (&trie[V, P]{}).adopt(other, depth+trieBits).adopt(l, depth+trieBits)
	return &trie[V, P]{set: t.set, kids: []branch[V, P]{{deeper: deeper}}}
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
			b = only.kids[0] // a leaf stands as high as it can
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
