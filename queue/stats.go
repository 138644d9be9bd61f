package queue

import (
	"math/bits"
	"time"
)

// Stats is a snapshot of what a queue has done and holds.
type Stats struct {
	// Added counts additions; Merged, those that found the key pending already.
	Added, Merged uint64
	// Began counts how often a key that did not wait came to wait: what client-go
	// counts as additions.
	Began uint64
	// Retried counts turns that ended with Retry or RetryAfter.
	Retried uint64
	// Failing is how many keys have failed and not succeeded since.
	Failing int
	// BackingOff is how many keys are delayed by their back-off.
	BackingOff int
	// Holds counts calls of Item.Hold.
	Holds uint64
	// Held is how many keys workers hold, and OldestHeld for how long at most.
	Held       int
	OldestHeld time.Duration
	// HeldTime is for how long workers have held these keys in all.
	HeldTime time.Duration
	// Delayed is how many keys wait for their time: a timer, the end of a
	// back-off, of a hold, or of the minimum interval.
	Delayed int
	// Lanes are by [Lane].
	Lanes [lanes]LaneStats
}

// LaneStats is the part of [Stats] that differs by lane.
type LaneStats struct {
	// Depth is how many keys wait for a worker.
	Depth int
	// Oldest is the age of the key that is next, of all groups.
	Oldest time.Duration
	// Dispatched counts hand-outs.
	Dispatched uint64
	// Waited is the sum of how long keys had waited when they were handed out.
	Waited time.Duration
	// Waits counts hand-outs by how long the key had waited: less than
	// WaitBound(0), less than WaitBound(1), and so on; the last, longer.
	Waits [waitBuckets + 1]uint64
}

const waitBuckets = 15

// WaitBound returns the upper bound of a bucket of Waits: 1.024 µs, four times as
// much, and so on.
func (LaneStats) WaitBound(bucket int) time.Duration { return 1 << (10 + 2*bucket) }

// counters are counted under Queue.mu.
type counters struct {
	added, merged, retried uint64
	holds                  uint64
	began                  int64 // keys that began to be pending
	failing, backing       int
	lanes                  [lanes]struct {
		waited int64
		waits  [waitBuckets + 1]uint64
	}
}

// waited counts one hand-out.
func (c *counters) waited(l Lane, wait int64) {
	wait = max(wait, 0)
	bucket := (bits.Len64(uint64(wait)>>10) + 1) / 2 //nolint:gosec // not negative
	c.lanes[l].waited += wait
	c.lanes[l].waits[min(bucket, waitBuckets)]++
}

// Stats returns a snapshot. It costs what the number of groups and of held keys
// is, not that of waiting keys.
func (q *Queue[K]) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	q.promote(now)
	s := Stats{
		Added: q.counters.added, Merged: q.counters.merged, Began: uint64(q.counters.began), //nolint:gosec // a count
		Retried: q.counters.retried,
		Failing: q.counters.failing, BackingOff: q.counters.backing, Holds: q.counters.holds,
		Held:    q.turns.live,
		Delayed: len(q.timers.nodes) - q.timers.stale,
	}
	for n := uint32(1); n <= q.turns.top; n++ {
		if t := q.turns.at(n); t.number != 0 {
			age := time.Duration(now - t.since)
			s.HeldTime += age
			s.OldestHeld = max(s.OldestHeld, age)
		}
	}
	for l := range s.Lanes {
		counted := &q.counters.lanes[l]
		s.Lanes[l] = LaneStats{
			Depth:  q.rings[l].waiting,
			Oldest: q.oldest(Lane(l), now), //nolint:gosec // one of three
			Waited: time.Duration(counted.waited),
			Waits:  counted.waits,
		}
		for _, count := range counted.waits {
			s.Lanes[l].Dispatched += count
		}
	}
	return s
}

// oldest is the age of the oldest head of the groups of a lane.
func (q *Queue[K]) oldest(l Lane, now int64) time.Duration {
	first := q.rings[l].cursor
	if first == 0 {
		return 0
	}
	since := now
	for g := first; ; {
		f := &q.groups.at(g).fifos[l]
		since = min(since, q.at(f.head).at)
		if g = f.next; g == first {
			return time.Duration(now - since)
		}
	}
}
