package tree

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
)

// Table finds items by key: a hash table with open addressing that any number of
// goroutines read while one at a time writes. Readers take no lock and write no
// memory. It must be filled before it is used.
type Table[T any] struct{ current atomic.Pointer[slots[T]] }

// slot belongs to one key until the table is rebuilt: its item changes, and is nil
// after the object was deleted, but its hash is written once.
type slot[T any] struct {
	// hash is 0 if the slot is free.
	hash atomic.Uint64
	item atomic.Pointer[Item[T]]
}

type slots[T any] struct {
	seed maphash.Seed
	// all has a power of two of slots, of which at most half are used.
	all []slot[T]
	// free counts the slots that may still be used before the table is rebuilt.
	free int
}

// find returns the slot of key, or else the free slot at which the search for
// it ends and the hash that is to be stored there.
func (s *slots[T]) find(key types.NamespacedName) (at *slot[T], free uint64) {
	hash := maphash.Comparable(s.seed, key) | 1<<63
	for n := hash; ; n++ {
		at = &s.all[n&uint64(len(s.all)-1)]
		switch at.hash.Load() {
		case 0:
			return at, hash
		case hash:
			// Two keys may have one hash: the search for the later one continues,
			// unless the item of the earlier one was removed.
			if it := at.item.Load(); it != nil && it.Key == key {
				return at, 0
			}
		}
	}
}

// Get returns the item of key, nil if there is none.
func (t *Table[T]) Get(key types.NamespacedName) *Item[T] {
	if at, free := t.current.Load().find(key); free == 0 {
		return at.item.Load()
	}
	return nil // a free slot may be about to get another key
}

// Put stores it instead of the item with the same key.
func (t *Table[T]) Put(it *Item[T]) {
	if s := t.current.Load(); s.free == 0 {
		var items []*Item[T]
		for n := range s.all {
			if it := s.all[n].item.Load(); it != nil {
				items = append(items, it)
			}
		}
		t.Fill(items)
	}
	t.current.Load().put(it)
}

// put stores it, for which there must be a free slot. The item is stored before
// the hash: a reader that finds the hash finds the item.
func (s *slots[T]) put(it *Item[T]) {
	at, free := s.find(it.Key)
	at.item.Store(it)
	if free != 0 {
		s.free--
		at.hash.Store(free)
	}
}

// Remove removes the item of key. Its slot stays in use until the table is rebuilt.
func (t *Table[T]) Remove(key types.NamespacedName) {
	at, _ := t.current.Load().find(key)
	at.item.Store(nil)
}

// Fill replaces the whole content by items. An eighth of their number may come
// before the table is rebuilt.
func (t *Table[T]) Fill(items []*Item[T]) {
	size := 1 << bits.Len(uint(max(4, len(items)*9/4)))
	s := &slots[T]{seed: maphash.MakeSeed(), all: make([]slot[T], size), free: size / 2}
	for _, it := range items {
		s.put(it)
	}
	t.current.Store(s)
}
