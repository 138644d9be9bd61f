package reconcile

import (
	"sync/atomic"
	"time"
)

// durationBuckets are the upper bounds of the histogram of turn times, in seconds.
var durationBuckets = [...]float64{
	0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120,
}

// An Outcome is what a turn came to.
type Outcome uint8

// The outcomes of a turn.
const (
	Succeeded  Outcome = iota // the invariant holds
	Requeued                  // with After
	Conflicted                // with a conflict: repeated quietly
	Failed                    // with an error or a panic: will be retried
	GaveUp                    // with a terminal error
	outcomes
)

// String returns the outcome as it stands in metrics.
func (o Outcome) String() string {
	return [...]string{"success", "requeue_after", "conflict", "error", "terminal", ""}[o]
}

// Stats are counts of a controller since it was made.
type Stats struct {
	// Reconciles by Outcome.
	Reconciles [outcomes]uint64
	// Panics, which are Failed turns as well, and those of Options.Group.
	Panics uint64
	// Stuck calls (of reconcilers, mappers, external triggers and hooks) have not
	// returned though their context has ended; Overran counts the log lines that
	// name them.
	Stuck   int
	Overran uint64
	// Active turns, out of Workers at most.
	Active, Workers int
	// HeldBack counts turns after which the key had to wait until the caches
	// saw its writes; Overdue those of them that ran at their deadline.
	HeldBack, Overdue uint64
	// Failing keys are those whose last turn failed, up to 1000 of them.
	Failing int
	// HotLoops counts turns after which the key was slowed down, since it wrote
	// an object again and again without getting anywhere.
	HotLoops uint64
	// Durations of turns: how many took at most that many seconds, by upper
	// bound; their sum in seconds.
	Durations    map[float64]uint64
	DurationsSum float64
}

type stats struct {
	reconciles        [outcomes]atomic.Uint64
	panics, overran   atomic.Uint64
	active            atomic.Int64
	heldBack, overdue atomic.Uint64
	hotLoops          atomic.Uint64
	durations         [len(durationBuckets) + 1]atomic.Uint64
	nanoseconds       atomic.Uint64
}

func (s *stats) took(o Outcome, d time.Duration) {
	s.reconciles[o].Add(1)
	s.nanoseconds.Add(uint64(d))
	i, seconds := 0, d.Seconds()
	for i < len(durationBuckets) && seconds > durationBuckets[i] {
		i++
	}
	s.durations[i].Add(1)
}

// Stats returns the controller's counts.
func (c *Controller) Stats() Stats {
	s := Stats{
		Panics:       c.stats.panics.Load(),
		Stuck:        c.watch.stuck(),
		Overran:      c.stats.overran.Load(),
		Active:       int(c.stats.active.Load()),
		Workers:      c.options.Workers,
		HeldBack:     c.stats.heldBack.Load(),
		Overdue:      c.stats.overdue.Load(),
		Failing:      c.failures.count(),
		HotLoops:     c.stats.hotLoops.Load(),
		Durations:    make(map[float64]uint64, len(durationBuckets)),
		DurationsSum: time.Duration(c.stats.nanoseconds.Load()).Seconds(),
	}
	for i := range s.Reconciles {
		s.Reconciles[i] = c.stats.reconciles[i].Load()
	}
	below := uint64(0)
	for i, bound := range durationBuckets {
		below += c.stats.durations[i].Load()
		s.Durations[bound] = below
	}
	return s
}
