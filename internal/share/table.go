package share

import (
	"math/bits"
	"unsafe"
	"weak"
)

// A table finds known parts by their hash: open addressing, so that most
// searches look at one line of memory.
type table struct {
	all  []entry // a power of two, at most three quarters of it used; nil if empty
	used int
}

// An entry is one known part.
type entry struct {
	hash uint64 // 0 if the entry is free
	at   weak.Pointer[byte]
	what shape
}

// A shape is the kind of a part, the number of its plan (0 if its type is clear
// from the kind), and its length: two parts of one hash and one shape may be
// compared.
type shape uint64

const (
	kindBits, planBits = 8, 20
	longest            = 1<<(64-kindBits-planBits) - 1
)

func shapeOf(k kind, p *plan, length int) shape {
	s := shape(length)<<(kindBits+planBits) | shape(k)
	if p != nil {
		s |= shape(p.number) << kindBits
	}
	return s
}

const smallestTable = 1 << 8

// place returns the entry of that hash, or the free one that ends the search.
func (t *table) place(hash uint64) *entry {
	mask := uint64(len(t.all) - 1)
	for n := hash * 0x9e3779b97f4a7c15 >> 20; ; n++ {
		if e := &t.all[n&mask]; e.hash == hash || e.hash == 0 {
			return e
		}
	}
}

// put makes the part at at that of hash, in place of one that is gone.
func (t *table) put(hash uint64, what shape, at unsafe.Pointer) {
	if 4*t.used >= 3*len(t.all) {
		t.sweep()
	}
	e := t.place(hash)
	if e.hash == 0 {
		t.used++
	}
	*e = entry{hash, weak.Make((*byte)(at)), what}
}

// sweep drops the parts that are gone, and leaves room for as many more as are
// left.
func (t *table) sweep() {
	old, living := t.all, 0
	for n := range old {
		if e := &old[n]; e.hash != 0 && e.at.Value() != nil {
			living++
		} else {
			*e = entry{}
		}
	}
	size := max(smallestTable, 1<<bits.Len(uint(2*living)))
	t.all, t.used = make([]entry, size), living
	for n := range old {
		if e := &old[n]; e.hash != 0 {
			*t.place(e.hash) = *e
		}
	}
}
