package reconcile

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/reconcile/inspect"
)

// records describe the past of a controller for people and metrics.
type records struct {
	stats      stats
	outputs    sync.Map // the kinds that the controller has written
	failures   failures
	failureLog failureLog
	histories  histories
}

// logPanic counts a panic about key. It logs the panic only if the number of
// panics has doubled, because every event of the key may lead to a further
// panic.
func (r *records) logPanic(err error, message, controller string, key Key) {
	if n := r.stats.panics.Add(1); n&(n-1) == 0 {
		klog.Background().Error(err, message, "controller", controller, "key", key.String())
	}
}

// stats are the counters behind inspect.Stats. They are safe for concurrent
// use.
type stats struct {
	reconciles        [len(inspect.Stats{}.Reconciles)]atomic.Uint64
	panics, overran   atomic.Uint64
	active            atomic.Int64
	heldBack, overdue atomic.Uint64
	hotLoops          atomic.Uint64
	durations         [len(durationBuckets) + 1]atomic.Uint64
	nanoseconds       atomic.Uint64
}

func (s *stats) count(o inspect.Outcome, d time.Duration) {
	s.reconciles[o].Add(1)
	s.nanoseconds.Add(uint64(d))
	i, seconds := 0, d.Seconds()
	for i < len(durationBuckets) && seconds > durationBuckets[i] {
		i++
	}
	s.durations[i].Add(1)
}

// durationBuckets are the upper bounds of the histogram of durations, in
// seconds.
var durationBuckets = [...]float64{
	0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120,
}
