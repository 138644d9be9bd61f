package reconcile

import (
	"sync/atomic"
	"time"

	"github.com/homeostat/homeostat/reconcile/inspect"
)

// durationBuckets are the upper bounds of the histogram of turn times, in seconds.
var durationBuckets = [...]float64{
	0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120,
}

type stats struct {
	reconciles        [len(inspect.Stats{}.Reconciles)]atomic.Uint64
	panics, overran   atomic.Uint64
	active            atomic.Int64
	heldBack, overdue atomic.Uint64
	hotLoops          atomic.Uint64
	durations         [len(durationBuckets) + 1]atomic.Uint64
	nanoseconds       atomic.Uint64
}

func (s *stats) took(o inspect.Outcome, d time.Duration) {
	s.reconciles[o].Add(1)
	s.nanoseconds.Add(uint64(d))
	i, seconds := 0, d.Seconds()
	for i < len(durationBuckets) && seconds > durationBuckets[i] {
		i++
	}
	s.durations[i].Add(1)
}

// Stats returns the controller's counts.
func (c *Controller) Stats() inspect.Stats {
	s := inspect.Stats{
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
