package queue

import (
	"cmp"
	"slices"
	"time"
)

// State says what a key of the queue does.
type State uint8

// The states of a key.
const (
	// Waiting for a worker.
	Waiting State = iota + 1
	// Delayed until Entry.Next.
	Delayed
	// Held by a worker.
	Held
)

// String returns the name of the state in lower case.
func (s State) String() string {
	switch s {
	case Waiting:
		return "waiting"
	case Delayed:
		return "delayed"
	case Held:
		return "held"
	default:
		return "unknown"
	}
}

// An Entry is what the queue knows of one key, at one moment.
type EntryStatus[K comparable] struct {
	Key   K
	State State
	// Lane is the one that the key waits or will wait in.
	Lane Lane
	// Failures counts failures in a row.
	Failures int
	// Since is when a key began to wait, or was handed out; zero if delayed.
	Since time.Time
	// Next is when a delayed key will wait for a worker.
	Next time.Time
	// BackingOff says that the delay is a back-off; OnHold, that it is an
	// [Item.Hold].
	BackingOff, OnHold bool
	// Readded says that a held key was added again.
	Readded bool
	// Causes are of the turn that the key waits for, or of the one that runs.
	Causes []Cause
}

// Entries returns at most limit keys: first those held, longest first; then
// those delayed, next first; then those waiting, by lane and in no order within.
//
// It looks at every delayed and held key and copies limit of them, under the
// lock of the queue: it is for people, not for programs.
func (q *Queue[K]) Entries(limit int) []EntryStatus[K] {
	if limit <= 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	q.promote(now)
	entries := q.heldEntries(limit)
	entries = append(entries, q.delayedEntries(limit-len(entries), now)...)
	for l := range q.rings {
		entries = q.appendWaiting(entries, limit, Lane(l)) //nolint:gosec // one of three
	}
	return entries
}

func (q *Queue[K]) heldEntries(limit int) []EntryStatus[K] {
	var running []*turn // pointers: a program then has no code of its own to sort turns
	for n := uint32(1); n <= q.turns.top; n++ {
		if t := q.turns.at(n); t.number != 0 {
			running = append(running, t)
		}
	}
	slices.SortFunc(running, func(a, b *turn) int { return cmp.Compare(a.number, b.number) })
	entries := make([]EntryStatus[K], 0, min(limit, len(running)))
	for _, t := range running[:min(limit, len(running))] {
		r := q.at(t.entry)
		e := q.describe(r, Held, t.causes)
		e.Since, e.Readded = q.time(t.since), r.pending == demand
		entries = append(entries, e)
	}
	return entries
}

func (q *Queue[K]) delayedEntries(limit int, now int64) []EntryStatus[K] {
	var nodes []*timerNode
	for i := range q.timers.nodes {
		if n := &q.timers.nodes[i]; q.valid(*n) && q.leads(*n) {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b *timerNode) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.entry, b.entry))
	})
	nodes = slices.CompactFunc(nodes, func(a, b *timerNode) bool { return a.entry == b.entry })
	var entries []EntryStatus[K]
	for _, n := range nodes[:min(limit, len(nodes))] {
		r := q.at(n.entry)
		e := q.describe(r, Delayed, r.causes)
		e.Next = q.time(n.due)
		if m := q.recall(r); m != nil && r.pending == nothing {
			e.Lane, e.Next = Live, q.time(max(n.due, m.gate()))
		} else if m != nil {
			e.BackingOff, e.OnHold = m.backoff > now && m.backoff == r.at, m.hold > now && m.hold == r.at
		}
		entries = append(entries, e)
	}
	return entries
}

// leads reports whether the key of a timer neither waits nor is held nor only rests until then.
func (q *Queue[K]) leads(t timerNode) bool {
	e := q.at(t.entry)
	if e.state == delayed && e.at == t.due {
		return e.pending != nothing
	}
	return e.pending == nothing && (e.state == delayed || e.state == idle)
}

func (q *Queue[K]) appendWaiting(entries []EntryStatus[K], limit int, l Lane) []EntryStatus[K] {
	first := q.rings[l].cursor
	for g := first; g != 0; {
		f := &q.groups.at(g).fifos[l]
		for n := f.head; n != 0 && len(entries) < limit; n = q.at(n).next {
			r := q.at(n)
			e := q.describe(r, Waiting, r.causes)
			e.Since = q.time(r.at)
			entries = append(entries, e)
		}
		if g = f.next; g == first {
			break
		}
	}
	return entries
}

func (q *Queue[K]) describe(r *record[K], s State, why uint32) EntryStatus[K] {
	e := EntryStatus[K]{Key: r.key, State: s, Lane: r.lane, Causes: q.causes.list(why, &r.key)}
	if m := q.recall(r); m != nil {
		e.Failures = int(m.failures)
	}
	return e
}

func (q *Queue[K]) time(at int64) time.Time { return q.epoch.Add(time.Duration(at - 1)) }
