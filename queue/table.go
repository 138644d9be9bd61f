package queue

import "hash/maphash"

// entry is the queue's record of one key. If a key is a namespace and a name,
// its entry fills one cache line.
type entry[K comparable] struct {
	key K
	// stateTime is when a waiting key began to wait, when a delayed key will be
	// dispatched, or when the pending addition of a held key is due.
	stateTime int64
	// next and prev link waiting keys. For a held key, next is the number of
	// its lease.
	next, prev uint32
	causes     uint32 // the causes of the next dispatch
	retry      uint32 // number of its retryState; 0 without a retryState
	// tag is the group of the key or, in a queue without groups, its hash. The
	// hash is stored so that it need not be computed again when the key is
	// removed.
	tag     uint32
	state   state
	lane    Lane
	pending pending
	marks   marks
}

// marks are facts about the additions of a key since its last dispatch.
type marks uint8

const (
	wasReset marks = 1 << iota // an addition had ResetBackoff while the key was held
	notOwn                     // an addition that leads to the next dispatch is not [AddOptions].Own
	ownTimer                   // the addition that set the pending timer is [AddOptions].Own
	retried                    // the next dispatch is a retry, even if the key was added since its failure
)

type state uint8

const (
	absent  state = iota
	waiting       // the key waits for a worker
	delayed       // the key is delayed until entry.stateTime, with or without a pending addition
	held          // a worker holds the key
	idle          // the key was not added; the entry only keeps its retryState
)

// pending is the kind of addition for which a key is dispatched next.
type pending uint8

const (
	noAddition pending = iota
	timer              // an addition with a delay; Cancel drops it
	demand             // an addition without a delay; Cancel keeps it
)

// lease is one dispatch of a key. It ends with its item.
type lease struct {
	entry      uint32
	causes     uint32
	ticket     uint64 // a number that is never used twice; 0 if the lease has ended
	dispatched int64
	waited     int64
	isOwn      bool // whether this is no retry, and every addition that led to it was the caller's own
}

// retryState is the part of a key's state that is kept after its dispatch, such
// as its failures and its back-off. Most keys have no retryState. Times in the
// past have no effect.
type retryState struct {
	failures   uint32
	backingOff bool  // whether the key is delayed by its back-off
	surplus    int8  // number of timers that do not stand for a delayed key; see schedule.recount
	backoff    int64 // end of the back-off
	hold       int64 // end of the hold
	interval   int64 // end of the minimum interval
	due        int64 // the time of the pending addition, in place of entry.stateTime
	laterDue   int64 // the time of a delayed addition through byKey; 0 without such an addition
}

// earliest returns when the key may be dispatched again.
func (r *retryState) earliest() int64 { return max(r.backoff, r.hold, r.interval) }

// retries stores the retryState of each key that has one, and sums over all
// keys.
type retries struct {
	slab[retryState]
	failing    int // number of keys that have failed
	backingOff int // number of keys delayed by their back-off
	surplus    int // the sum of the surpluses of all keys
	failed     uint64
}

// get returns the state with number n, or nil for 0.
func (r *retries) get(n uint32) *retryState {
	if n == 0 {
		return nil
	}
	return r.value(n)
}

func (r *retries) fail(s *retryState) {
	if s.failures == 0 {
		r.failing++
	}
	s.failures++
	r.failed++
}

func (r *retries) forget(s *retryState) {
	if s.failures > 0 {
		s.failures = 0
		r.failing--
	}
}

// setSurplus records the surplus of a key; see schedule.recount.
func (r *retries) setSurplus(s *retryState, surplus int8) {
	r.surplus += int(surplus - s.surplus)
	s.surplus = surplus
}

// setBackingOff records whether a key is delayed by its back-off. s may be nil.
func (r *retries) setBackingOff(s *retryState, backingOff bool) {
	if s == nil || s.backingOff == backingOff {
		return
	}
	s.backingOff = backingOff
	if backingOff {
		r.backingOff++
	} else {
		r.backingOff--
	}
}

// table finds the entry of a key by open addressing. Only the entries store
// keys, so a table is much smaller than a map.
type table[K comparable] struct {
	slab[entry[K]]
	slots []slot
	mask  uint32
	seed  maphash.Seed
}

// slot holds the number of an entry, 0 if it is free, and the hash of the
// entry's key. With the stored hash, the table can grow, and remove entries,
// without reading the entries.
type slot struct{ hash, entry uint32 }

const smallTable = 64

func newTable[K comparable]() table[K] {
	return table[K]{slots: make([]slot, smallTable), mask: smallTable - 1, seed: maphash.MakeSeed()}
}

func (t *table[K]) hash(key K) uint32 {
	return uint32(maphash.Comparable(t.seed, key)) //nolint:gosec // the low bits are wanted
}

// find returns the number of key's entry, or 0.
func (t *table[K]) find(key K, hash uint32) uint32 {
	for i := hash & t.mask; ; i = (i + 1) & t.mask {
		found := t.slots[i]
		if found.entry == 0 || found.hash == hash && t.value(found.entry).key == key {
			return found.entry
		}
	}
}

// get returns the number of key's entry and the entry, or 0 and nil.
func (t *table[K]) get(key K) (n uint32, e *entry[K]) {
	if n = t.find(key, t.hash(key)); n != 0 {
		e = t.value(n)
	}
	return n, e
}

// insert adds an entry for a key that has no entry yet.
func (t *table[K]) insert(key K, hash uint32) (n uint32, e *entry[K]) {
	n = t.take()
	e = t.value(n)
	e.key = key
	if 4*t.live > 3*len(t.slots) {
		t.resize(2 * len(t.slots))
	}
	t.place(slot{hash, n})
	return n, e
}

// place puts a slot at the first free place, starting with the place that its
// hash selects. There always is a free place, because a quarter of the slots is
// kept free.
func (t *table[K]) place(added slot) {
	i := added.hash & t.mask
	for t.slots[i].entry != 0 {
		i = (i + 1) & t.mask
	}
	t.slots[i] = added
}

func (t *table[K]) resize(size int) {
	old := t.slots
	t.slots = make([]slot, size)
	t.mask = uint32(size - 1) //nolint:gosec // a table of 2³² slots does not fit
	for _, o := range old {
		if o.entry != 0 {
			t.place(o)
		}
	}
}

// remove deletes entry n, whose key has this hash. It moves the entries that
// were displaced by it, and leaves no tombstone.
func (t *table[K]) remove(n, hash uint32) {
	hole := hash & t.mask
	for t.slots[hole].entry != n {
		hole = (hole + 1) & t.mask
	}
	for i := (hole + 1) & t.mask; t.slots[i].entry != 0; i = (i + 1) & t.mask {
		home := t.slots[i].hash & t.mask
		if (i-home)&t.mask >= (i-hole)&t.mask {
			t.slots[hole] = t.slots[i]
			hole = i
		}
	}
	t.slots[hole] = slot{}
	t.drop(n)
	if t.live == 0 && len(t.slots) > keptChunks*chunkSize*2 {
		t.slots, t.mask = make([]slot, smallTable), smallTable-1
	}
}
