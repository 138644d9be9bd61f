package queue

import "hash/maphash"

// A store finds the entry of a key: an open-addressing table of entry numbers.
// Keys live in the entries alone, which makes it much smaller than a map.
type store[K comparable] struct {
	slab[record[K]]
	slots []slot
	mask  uint32
	seed  maphash.Seed
}

// A slot holds an entry's number (0 = free) and its hash, so that neither
// growing nor removing has to look at entries.
type slot struct{ hash, entry uint32 }

const smallTable = 64

func newStore[K comparable]() store[K] {
	return store[K]{slots: make([]slot, smallTable), mask: smallTable - 1, seed: maphash.MakeSeed()}
}

func (s *store[K]) hash(key K) uint32 {
	return uint32(maphash.Comparable(s.seed, key)) //nolint:gosec // the low bits are what is wanted
}

// find returns the number of key's entry, 0 if there is none.
func (s *store[K]) find(key K, hash uint32) uint32 {
	entry, _ := s.seek(key, hash)
	return entry
}

// seek returns the number of key's entry, or 0 and the slot where it belongs.
func (s *store[K]) seek(key K, hash uint32) (entry, place uint32) {
	for i := hash & s.mask; ; i = (i + 1) & s.mask {
		found := s.slots[i]
		if found.entry == 0 {
			return 0, i
		}
		if found.hash == hash && s.at(found.entry).key == key {
			return found.entry, i
		}
	}
}

// insert makes an entry for a key that seek has not found.
func (s *store[K]) insert(key K, hash, place uint32) (entry uint32, e *record[K]) {
	entry = s.take()
	e = s.at(entry)
	e.key = key
	if 4*s.live > 3*len(s.slots) {
		s.resize(2 * len(s.slots))
		s.place(slot{hash, entry})
	} else {
		s.slots[place] = slot{hash, entry}
	}
	return entry, e
}

func (s *store[K]) place(added slot) {
	i := added.hash & s.mask
	for s.slots[i].entry != 0 {
		i = (i + 1) & s.mask
	}
	s.slots[i] = added
}

func (s *store[K]) resize(size int) {
	old := s.slots
	s.slots = make([]slot, size)
	s.mask = uint32(size - 1) //nolint:gosec // a table of 2³² slots does not fit
	for _, o := range old {
		if o.entry != 0 {
			s.place(o)
		}
	}
}

// remove takes entry number n, of a key with that hash, out. Followers that were displaced by it move up,
// so that no tombstones are left.
func (s *store[K]) remove(n, hash uint32) {
	hole := hash & s.mask
	for s.slots[hole].entry != n {
		hole = (hole + 1) & s.mask
	}
	for i := (hole + 1) & s.mask; s.slots[i].entry != 0; i = (i + 1) & s.mask {
		home := s.slots[i].hash & s.mask
		if (i-home)&s.mask >= (i-hole)&s.mask {
			s.slots[hole] = s.slots[i]
			hole = i
		}
	}
	s.slots[hole] = slot{}
	s.drop(n)
	if s.live == 0 && len(s.slots) > keptChunks*chunkSize*2 {
		s.slots, s.mask = make([]slot, smallTable), smallTable-1
	}
}
