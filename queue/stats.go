package queue

import (
	"math/bits"
	"time"
)

// Stats is a snapshot of what a queue has done since it was made, and of what it
// holds.
type Stats struct {
	// Added counts additions. Merged counts those that found the key pending
	// already.
	Added, Merged uint64
	// Began counts how often a key that was not pending became so, which is what
	// client-go counts as additions.
	Began uint64
	// Retried counts items that ended with Retry or RetryAfter.
	Retried uint64
	// Failing is the number of keys that have failed and not succeeded since.
	Failing int
	// BackingOff is the number of keys that are delayed by their back-off.
	BackingOff int
	// Holds counts calls of Item.Hold.
	Holds uint64
	// Held is the number of keys that workers hold, and OldestHeld for how long
	// one of them has been held at most.
	Held       int
	OldestHeld time.Duration
	// HeldTime is for how long these keys have been held in all.
	HeldTime time.Duration
	// Delayed is the number of keys that wait for a time: a timer, the end of a
	// back-off, of a hold, or of the minimum interval.
	Delayed int
	// Lanes is indexed by [Lane].
	Lanes [laneCount]LaneStats
}

// LaneStats is the part of [Stats] that differs by lane.
type LaneStats struct {
	// Depth is the number of keys that wait for a worker.
	Depth int
	// Oldest is for how long the next key of any group has waited at most.
	Oldest time.Duration
	// Dispatched counts dispatches.
	Dispatched uint64
	// Waited is the sum of how long keys had waited when they were dispatched.
	Waited time.Duration
	// Waits counts dispatches by how long the key had waited: less than
	// WaitBound(0), less than WaitBound(1), and so on. The last one counts the
	// rest.
	Waits [waitBuckets + 1]uint64
}

const waitBuckets = 15

// WaitBound returns the upper bound of a bucket of Waits: 1.024 µs for the first,
// and four times as much for each next one.
func (LaneStats) WaitBound(bucket int) time.Duration { return 1 << (10 + 2*bucket) }

// counters holds the counts that nothing else has.
type counters struct {
	added, merged, holds uint64
	began                int64 // keys that began to be pending
	lanes                [laneCount]struct {
		waited int64
		waits  [waitBuckets + 1]uint64
	}
}

// waited counts one dispatch, of a key that had waited so long.
func (c *counters) waited(l Lane, wait int64) {
	wait = max(wait, 0)
	bucket := (bits.Len64(uint64(wait)>>10) + 1) / 2 //nolint:gosec // not negative
	c.lanes[l].waited += wait
	c.lanes[l].waits[min(bucket, waitBuckets)]++
}

// Stats returns a snapshot. Its cost grows with the number of groups and of held
// keys, not with that of waiting keys.
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
		Delayed: len(s.timers.nodes) - s.timers.stale,
	}
	for n := uint32(1); n <= s.leases.top; n++ {
		if l := s.leases.at(n); l.ticket != 0 {
			age := time.Duration(now - l.since)
			stats.HeldTime += age
			stats.OldestHeld = max(stats.OldestHeld, age)
		}
	}
	for l := range stats.Lanes {
		counted, since := &s.counters.lanes[l], now
		for head := range s.lanes.heads(Lane(l)) { //nolint:gosec // one of three
			since = min(since, s.table.at(head).at)
		}
		stats.Lanes[l] = LaneStats{
			Depth:  s.lanes.rings[l].waiting,
			Oldest: time.Duration(now - since),
			Waited: time.Duration(counted.waited),
			Waits:  counted.waits,
		}
		for _, count := range counted.waits {
			stats.Lanes[l].Dispatched += count
		}
	}
	return stats
}
