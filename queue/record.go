package queue

// A record is the entry of one key: what the queue knows of it. It fills one cache line when the
// key is a namespace and a name.
type record[K comparable] struct {
	key K
	// at is, by state: waiting since when; delayed until when; for a held key,
	// the time of what is pending.
	at int64
	// next and prev link waiting keys; next is the turn of a held one.
	next, prev uint32
	causes     uint32 // of the next turn
	memory     uint32
	// tag is the group or, without groups, the hash of the key, so that removing
	// a key need not compute it again.
	tag     uint32
	state   state
	lane    Lane
	pending pending
	reset   bool // was added with Reset while held
}

type state uint8

const (
	absent  state = iota
	waiting       // for a worker
	delayed       // until entry.at, with or without something pending
	held          // by a worker
	idle          // only its failures are remembered
)

// pending says what leads to the next turn of a key.
type pending uint8

const (
	nothing pending = iota
	timer           // a deadline, which can be cancelled
	demand          // an addition, which cannot
)

// A memory is what outlives a turn; most keys have none. Times in the past mean
// nothing.
type memory struct {
	failures uint32
	backing  bool  // is delayed by its back-off, and counted
	backoff  int64 // earliest next turn of a failed key
	hold     int64 // earliest next turn of a held-back key
	rest     int64 // earliest next turn by MinInterval
	due      int64 // the time of what is pending, in place of entry.at
	later    int64 // the time of a delayed addition that nothing else replaces; 0: none
}

func (m *memory) gate() int64 { return max(m.backoff, m.hold, m.rest) }

// A turn is one hand-out of a key.
type turn struct {
	entry  uint32
	causes uint32
	number uint64 // never used twice
	since  int64
	waited int64
}

// recall returns the memory of e, nil if it has none.
func (q *Queue[K]) recall(e *record[K]) *memory {
	if e.memory == 0 {
		return nil
	}
	return q.memories.at(e.memory)
}

// remember returns the memory of e and makes one if need be.
func (q *Queue[K]) remember(e *record[K]) *memory {
	if e.memory == 0 {
		e.memory = q.memories.take()
		q.memories.at(e.memory).due = e.at
	}
	return q.memories.at(e.memory)
}

// forgive ends back-off and failures of e.
func (q *Queue[K]) forgive(e *record[K]) {
	if m := q.recall(e); m != nil {
		q.forget(m)
		m.backoff = 0
	}
}

// forget forgets the failures of a key.
func (q *Queue[K]) forget(m *memory) {
	if m.failures > 0 {
		m.failures = 0
		q.counters.failing--
	}
}

// failed counts a failure of a key.
func (q *Queue[K]) failed(m *memory) {
	if m.failures == 0 {
		q.counters.failing++
	}
	m.failures++
	q.counters.retried++
}

// due is the time of what is pending for e.
func (q *Queue[K]) due(e *record[K]) int64 {
	if m := q.recall(e); m != nil {
		return m.due
	}
	return e.at
}

// expect sets what is pending for e, which must not be waiting. Unless a worker
// holds e, settle must follow.
func (q *Queue[K]) expect(e *record[K], p pending, due int64) {
	if e.state == held && (e.pending == demand) != (p == demand) {
		if p == demand {
			q.again++
			q.counters.began++
		} else {
			q.again--
		}
	}
	e.pending = p
	if m := q.recall(e); m != nil {
		m.due = due
		return
	}
	q.unschedule(e)
	e.at = due
}
