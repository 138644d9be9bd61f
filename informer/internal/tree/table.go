package tree

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
)

// Table finds items by key. It is a hash table with open addressing. Any number
// of goroutines can read it while one writes. Readers take no lock and write no
// memory. It must be filled before it is used.
type Table[T any] struct{ current atomic.Pointer[slots[T]] }

// slot belongs to one key until the table is rebuilt. Its hash is written once.
// Its item changes, and is nil after the object was deleted.
type slot[T any] struct {
	// hash is 0 if the slot is free.
	hash atomic.Uint64
	item atomic.Pointer[Item[T]]
}

type slots[T any] struct {
	seed maphash.Seed
	// The length of list is a power of two. At most half of the slots are used.
	list []slot[T]
	// free is the number of slots that may be used before the table is rebuilt.
	free int
}

// find returns the slot with the item of key. If the table has no such item, it
// returns the free slot at which the search ends, and the hash to store in it.
// For example, it returns another slot for a key whose item was removed.
func (s *slots[T]) find(key types.NamespacedName) (found *slot[T], free uint64) {
	hash := maphash.Comparable(s.seed, key) | 1<<63
	for n := hash; ; n++ {
		found = &s.list[n&uint64(len(s.list)-1)]
		switch found.hash.Load() {
		case 0:
			return found, hash
		case hash:
			// Two keys can have the same hash. The search for the second one
			// goes on, unless the item of the first one was removed.
			if item := found.item.Load(); item != nil && item.Key == key {
				return found, 0
			}
		}
	}
}

// Get returns the item of key, or nil.
func (t *Table[T]) Get(key types.NamespacedName) *Item[T] {
	if found, free := t.current.Load().find(key); free == 0 {
		return found.item.Load()
	}
	return nil // a writer may be storing another key in the free slot
}

// Put stores an item. It replaces the item with the same key.
func (t *Table[T]) Put(item *Item[T]) {
	if s := t.current.Load(); s.free == 0 {
		var items []*Item[T]
		for n := range s.list {
			if item := s.list[n].item.Load(); item != nil {
				items = append(items, item)
			}
		}
		t.Fill(items)
	}
	t.current.Load().put(item)
}

// put stores an item. There must be a free slot. The item is stored before the
// hash, because a reader that finds the hash must find the item.
func (s *slots[T]) put(item *Item[T]) {
	found, free := s.find(item.Key)
	found.item.Store(item)
	if free != 0 {
		s.free--
		found.hash.Store(free)
	}
}

// Remove removes the item of key. Its slot stays in use until the table is
// rebuilt.
func (t *Table[T]) Remove(key types.NamespacedName) {
	found, _ := t.current.Load().find(key)
	found.item.Store(nil)
}

// Fill replaces the whole content with items. After that, at least an eighth of
// their number can be added before the table is rebuilt.
func (t *Table[T]) Fill(items []*Item[T]) {
	size := 1 << bits.Len(uint(max(4, len(items)*9/4)))
	s := &slots[T]{seed: maphash.MakeSeed(), list: make([]slot[T], size), free: size / 2}
	for _, item := range items {
		s.put(item)
	}
	t.current.Store(s)
}
