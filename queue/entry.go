package queue

// entry is what the queue knows of one key. It fills one cache line when the key
// is a namespace and a name.
type entry[K comparable] struct {
	key K
	// at depends on the state: since when the key waits; until when it is
	// delayed; for a held key, the time of what is pending.
	at int64
	// next and prev link waiting keys; next is the lease of a held one.
	next, prev uint32
	causes     uint32 // of the next dispatch
	retry      uint32 // number of its retryState, 0 if it has none
	// tag is the group or, without groups, the hash of the key, so that removing
	// a key need not compute it again.
	tag     uint32
	state   state
	lane    Lane
	pending pending
	reset   bool // was added with ResetBackoff while held
}

type state uint8

const (
	absent  state = iota
	waiting       // for a worker
	delayed       // until entry.at, with or without something pending
	held          // by a worker
	idle          // only its failures are remembered
)

// pending says what leads to the next dispatch of a key.
type pending uint8

const (
	nothing pending = iota
	timer           // a deadline, which can be cancelled
	demand          // an addition, which cannot
)

// retryState is what outlives a dispatch of a key. Most keys have none. Times in
// the past mean nothing.
type retryState struct {
	failures   uint32
	backingOff bool  // delayed by its back-off, and counted
	backoff    int64 // end of the back-off
	hold       int64 // end of the hold
	interval   int64 // end of the minimum interval
	due        int64 // the time of what is pending, in place of entry.at
	later      int64 // the time of an addition by key, see byKey; 0 if there is none
}

// earliest returns when the key may be dispatched again.
func (r *retryState) earliest() int64 { return max(r.backoff, r.hold, r.interval) }

// retries holds the retryState of each key that has one.
type retries struct {
	slab[retryState]
	failing    int // keys that have failed
	backingOff int // keys delayed by their back-off
	failed     uint64
}

// of returns the state of number n, nil for 0.
func (r *retries) of(n uint32) *retryState {
	if n == 0 {
		return nil
	}
	return r.at(n)
}

// fail counts a failure.
func (r *retries) fail(s *retryState) {
	if s.failures == 0 {
		r.failing++
	}
	s.failures++
	r.failed++
}

// forget forgets the failures.
func (r *retries) forget(s *retryState) {
	if s.failures > 0 {
		s.failures = 0
		r.failing--
	}
}

// setBackingOff says whether a key is delayed by its back-off. s may be nil.
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
