package intern

import (
	"math/bits"
	"sync"
	"weak"
)

// A table finds known parts by their hash: open addressing, so that most
// searches look at one line of memory. Hashes are keyed, so that no input can
// make long ones, and a search ends after longestProbe entries all the same.
type table struct {
	mu     sync.Mutex // guards what follows; held for a search, or to rebuild one table of many
	all    []entry    // a power of two, at most three quarters of it used; nil if empty
	used   int
	seen   []sighting // by a part of their hashes; later ones overwrite others
	news   int        // sightings since seen has this size
	probes uint64     // entries and sightings that were looked at
}

// An entry is one known part.
type entry struct {
	hash uint64 // 0 if the entry is free
	at   weak.Pointer[byte]
	what shape
}

// A sighting is a part that has been seen once.
type sighting struct {
	hash   uint32 // another part of it
	object uint32 // in which it was seen; 0 if there is none
}

// A shape is the kind of a part, the number of its plan (0 if its type is clear
// from the kind), and its length: two parts of one shape may be compared.
type shape uint64

const (
	kindBits, planBits = 8, 20
	longest            = 1<<(64-kindBits-planBits) - 1
)

// shapeOf returns 0 if there is no shape: for lists that are too long, and types that
// come after the first million.
func shapeOf(k kind, p *plan, length int) shape {
	if length > longest || p != nil && p.number >= 1<<planBits {
		return 0
	}
	s := shape(length)<<(kindBits+planBits) | shape(k)
	if p != nil {
		s |= shape(p.number) << kindBits
	}
	return s
}

const (
	smallestTable = 1 << 2
	longestProbe  = 32
	ways          = 4 // places for a sighting

	smallestFilter = 1 << 3
	largestFilter  = 1 << 10
)

// place returns the entry of that hash and shape, or the free one that ends the
// search: nil if there is neither nearby.
func (t *table) place(hash uint64, what shape) *entry {
	mask := uint64(len(t.all) - 1)
	for n := range min(longestProbe, uint64(len(t.all))) {
		t.probes++
		if e := &t.all[(hash>>tableBits+n)&mask]; e.hash == 0 || e.hash == hash && e.what == what {
			return e
		}
	}
	return nil
}

// get returns the known part of that hash and shape: nil if there is none.
func (t *table) get(hash uint64, what shape) *byte {
	if len(t.all) == 0 {
		return nil
	}
	if e := t.place(hash, what); e != nil {
		return e.at.Value() // nil of an empty entry
	}
	return nil
}

// put makes the part at at that of hash, in place of the one before.
func (t *table) put(hash uint64, what shape, at *byte) {
	if 4*t.used >= 3*len(t.all) {
		t.rebuild()
	}
	e := t.place(hash, what)
	if e == nil {
		return
	}
	if e.hash == 0 {
		t.used++
	}
	*e = entry{hash, weak.Make(at), what}
}

// rebuild drops the parts that are dead, and leaves room for as many more as are
// left.
func (t *table) rebuild() {
	old, living := t.all, 0
	for n := range old {
		if e := &old[n]; e.hash != 0 && e.at.Value() != nil {
			living++
		} else {
			*e = entry{}
		}
	}
	t.all, t.used = make([]entry, max(smallestTable, 1<<bits.Len(uint(2*living)))), 0
	for n := range old {
		if e := &old[n]; e.hash != 0 {
			if to := t.place(e.hash, e.what); to != nil {
				*to = *e
				t.used++
			}
		}
	}
}

// sweep rebuilds a table of which a quarter is dead.
func (t *table) sweep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	dead := 0
	for n := range t.all {
		if e := &t.all[n]; e.hash != 0 && e.at.Value() == nil {
			dead++
		}
	}
	if 4*dead <= t.used {
		return
	}
	if t.rebuild(); t.used == 0 {
		t.all, t.seen, t.news = nil, nil, 0
	}
}

// sighted notes a part that is not known, and reports whether another object
// has it, too.
func (t *table) sighted(hash uint64, object uint32) bool {
	if t.seen == nil {
		t.seen = make([]sighting, smallestFilter)
	}
	bucket := t.seen[hash>>tableBits&uint64(len(t.seen)-1)&^(ways-1):][:ways]
	oldest := &bucket[0]
	for n := range bucket {
		t.probes++
		switch slot := &bucket[n]; {
		case slot.object != 0 && slot.hash == uint32(hash>>32):
			return slot.object != object
		case slot.object < oldest.object:
			oldest = slot
		}
	}
	*oldest = sighting{uint32(hash >> 32), object}
	if t.news++; t.news > len(t.seen) && len(t.seen) < largestFilter {
		t.seen, t.news = make([]sighting, 2*len(t.seen)), 0
	}
	return false
}
