package queue

import (
	"cmp"
	"slices"
	"time"
)

// Stats is a snapshot of a queue: numbers of the keys in it now, and counts
// since it was made.
type Stats struct {
	// Added counts additions. Merged counts additions of a key that had to be
	// dispatched anyway: it was waiting, delayed by a timer or a back-off, or
	// added while it was held.
	Added, Merged uint64
	// Began counts how often a key became pending: it began to wait for a
	// worker, or was added while a worker held it. client-go counts only that
	// as an addition.
	Began uint64
	// Retried counts items that ended with Retry or RetryAfter and, with
	// package workqueue, calls of AddRateLimited if there is no RateLimiter.
	Retried uint64
	// Failing is the number of keys that have failures: they have failed, and
	// since then they have not succeeded, and no Forget or ResetBackoff has
	// cleared the failures.
	Failing int
	// BackingOff is the number of keys that are delayed by their back-off.
	BackingOff int
	// Holds counts calls of Item.Hold.
	Holds uint64
	// Held is the number of keys that workers hold. OldestHeld is the longest
	// time that a worker has been holding one of them.
	Held       int
	OldestHeld time.Duration
	// HeldTime is the sum, over the held keys, of the time since their
	// dispatch.
	HeldTime time.Duration
	// Delayed is the number of keys that will be dispatched later: when a timer
	// expires, or when a back-off, a hold or the minimum interval ends.
	Delayed int
	// Lanes is indexed by [Lane].
	Lanes [laneCount]LaneStats
}

// LaneStats is the part of [Stats] that differs by lane.
type LaneStats struct {
	// Depth is the number of keys that wait for a worker.
	Depth int
	// Oldest is the longest time that the next key of any group has waited, or
	// 0 if no key waits.
	Oldest time.Duration
	// Dispatched counts dispatches.
	Dispatched uint64
	// Waited is the total time that dispatched keys waited before their
	// dispatch.
	Waited time.Duration
	// Waits counts dispatches by how long the key waited: less than
	// WaitBound(0), less than WaitBound(1), and so on. The last element counts
	// all longer waits.
	Waits [waitBuckets + 1]uint64
}

// WaitBound returns the upper bound of a bucket of Waits. It is 1.024 µs for
// bucket 0, 4.096 µs for bucket 1, and four times as long for each next one.
// The last bucket has no upper bound.
func (LaneStats) WaitBound(bucket int) time.Duration { return 1 << (10 + 2*bucket) }

// Stats returns a snapshot. Its cost grows with the number of groups and held
// keys, not with the number of waiting keys.
func (q *Queue[K]) Stats() Stats {
	q.mu.Lock()
	defer q.unlock()
	s := &q.schedule
	now := s.now()
	s.promote(now)
	stats := Stats{
		Added: s.counters.added, Merged: s.counters.merged, Began: uint64(s.counters.began), //nolint:gosec // a count
		Retried: s.retries.failed, Failing: s.retries.failing, BackingOff: s.retries.backingOff,
		Holds: s.counters.holds, Held: s.leases.live,
		Delayed: len(s.timers.nodes) - s.timers.stale - s.retries.surplus,
	}
	for n := uint32(1); n <= s.leases.top; n++ {
		if l := s.leases.value(n); l.ticket != 0 {
			age := time.Duration(now - l.dispatched)
			stats.HeldTime += age
			stats.OldestHeld = max(stats.OldestHeld, age)
		}
	}
	for l := range stats.Lanes {
		counted, oldest := &s.counters.lanes[l], now
		for head := range s.lanes.heads(Lane(l)) { //nolint:gosec // one of three
			oldest = min(oldest, max(s.table.value(head).stateTime, s.opened))
		}
		stats.Lanes[l] = LaneStats{
			Depth:  s.lanes.rings[l].waiting,
			Oldest: time.Duration(now - oldest),
			Waited: time.Duration(counted.waited),
			Waits:  counted.waits,
		}
		for _, count := range counted.waits {
			stats.Lanes[l].Dispatched += count
		}
	}
	return stats
}

// State is the state of a key in the queue.
type State uint8

// The states of a key.
const (
	// Waiting means that the key waits for a worker.
	Waiting State = iota + 1
	// Delayed means that the key will wait for a worker from EntryStatus.Next
	// on.
	Delayed
	// Held means that a worker holds the key.
	Held
)

// String returns the name of the state in lower case.
func (s State) String() string {
	if s < Waiting || s > Held {
		return "unknown"
	}
	return [...]string{"waiting", "delayed", "held"}[s-Waiting]
}

// EntryStatus describes one key of a queue at one moment.
type EntryStatus[K comparable] struct {
	Key   K
	State State // waiting, delayed or held
	// Lane is the lane in which the key waits, or will wait. For a held key
	// that was not added again, it is the lane from which it was dispatched.
	Lane Lane
	// Failures counts failures in a row.
	Failures int
	// Since is when a waiting key began to wait, or when a held key was
	// dispatched. Zero for a delayed key.
	Since time.Time
	// Next is when a delayed key will begin to wait for a worker. Zero for
	// other keys.
	Next time.Time
	// BackingOff is true for a key that is delayed by its back-off, and OnHold
	// for one that is delayed by [Item.Hold].
	BackingOff, OnHold bool
	// Readded is true for a held key that was added again.
	Readded bool
	// Causes explains the dispatch that the key waits for or, if it is held,
	// the current one; see [Item.Causes].
	Causes []Cause
}

// Entries returns at most limit keys: first the held keys, the longest held
// first; then the delayed keys, the earliest due first; then the waiting keys
// by lane, in no particular order within a lane. It returns nil if limit is
// zero or less. The result is a copy.
//
// Entries scans every delayed and held key and copies at most limit keys, while
// it holds the queue's lock. It is meant for debug pages. Do not call it in a
// loop.
func (q *Queue[K]) Entries(limit int) []EntryStatus[K] {
	if limit <= 0 {
		return nil
	}
	q.mu.Lock()
	defer q.unlock()
	s := &q.schedule
	now := s.now()
	s.promote(now)
	l := listing[K]{schedule: s, limit: limit}
	l.addHeld()
	l.addDelayed(now)
	for lane := range Lane(laneCount) {
		l.addWaiting(lane)
	}
	return l.entries
}

// listing collects the status of keys, up to a limit.
type listing[K comparable] struct {
	*schedule[K]

	limit   int
	entries []EntryStatus[K]
}

// room returns how many of n more keys the limit allows.
func (l *listing[K]) room(n int) int { return min(n, l.limit-len(l.entries)) }

// time returns the time of day for a time of the schedule. It is the inverse of
// schedule.now.
func (l *listing[K]) time(t int64) time.Time { return l.epoch.Add(time.Duration(t - 1)) }

func (l *listing[K]) addHeld() {
	var leases []*lease // pointers, since sorting them adds less code to a program than sorting structs
	for n := uint32(1); n <= l.leases.top; n++ {
		if h := l.leases.value(n); h.ticket != 0 {
			leases = append(leases, h)
		}
	}
	slices.SortFunc(leases, func(a, b *lease) int { return cmp.Compare(a.ticket, b.ticket) })
	for _, h := range leases[:l.room(len(leases))] {
		e := l.table.value(h.entry)
		status := l.describe(e, Held, h.causes)
		status.Since, status.Readded = l.time(h.dispatched), e.pending == demand
		l.entries = append(l.entries, status)
	}
}

func (l *listing[K]) addDelayed(now int64) {
	var nodes []*timerNode
	for i := range l.timers.nodes {
		if t := &l.timers.nodes[i]; l.current(*t) && l.leads(t) {
			nodes = append(nodes, t)
		}
	}
	slices.SortFunc(nodes, func(a, b *timerNode) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.entry, b.entry))
	})
	nodes = slices.CompactFunc(nodes, func(a, b *timerNode) bool { return a.entry == b.entry })
	for _, t := range nodes[:l.room(len(nodes))] {
		e := l.table.value(t.entry)
		status := l.describe(e, Delayed, e.causes)
		status.Next = l.time(t.due)
		if r := l.retries.get(e.retry); r != nil && e.pending == noAddition {
			status.Lane, status.Next = Normal, l.time(max(t.due, r.earliest()))
		} else if r != nil {
			status.BackingOff = r.backoff > now && r.backoff == e.stateTime
			status.OnHold = r.hold > now && r.hold == e.stateTime
		}
		l.entries = append(l.entries, status)
	}
}

// leads reports whether a timer leads to a dispatch of its key. The key must
// neither wait nor be held.
func (l *listing[K]) leads(t *timerNode) bool {
	e := l.table.value(t.entry)
	if e.state == delayed && e.stateTime == t.due {
		return e.pending != noAddition
	}
	return e.pending == noAddition && (e.state == delayed || e.state == idle)
}

func (l *listing[K]) addWaiting(lane Lane) {
	for head := range l.lanes.heads(lane) {
		for n := head; n != 0 && l.room(1) > 0; n = l.table.value(n).next {
			e := l.table.value(n)
			status := l.describe(e, Waiting, e.causes)
			status.Since = l.time(e.stateTime)
			l.entries = append(l.entries, status)
		}
	}
}

func (l *listing[K]) describe(e *entry[K], s State, causes uint32) EntryStatus[K] {
	status := EntryStatus[K]{Key: e.key, State: s, Lane: e.lane, Causes: l.causes.list(causes, &e.key)}
	if r := l.retries.get(e.retry); r != nil {
		status.Failures = int(r.failures)
	}
	return status
}
