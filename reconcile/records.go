package reconcile

import (
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/reconcile/inspect"
)

// records are what a controller remembers for people and metrics.
type records struct {
	stats     stats
	outputs   outputs
	failures  failures
	histories histories
}

// logPanic counts a panic about key. It logs only each one that doubles their
// number, since every event of the key leads to a panic.
func (r *records) logPanic(panicked any, message, controller string, key Key) {
	if n := r.stats.panics.Add(1); n&(n-1) == 0 {
		klog.Background().Error(fmt.Errorf("panic: %v\n%s", panicked, debug.Stack()), message,
			"controller", controller, "key", key.String())
	}
}

// stats are the counters behind inspect.Stats. They are safe for concurrent use.
type stats struct {
	reconciles        [len(inspect.Stats{}.Reconciles)]atomic.Uint64
	panics, overran   atomic.Uint64
	active            atomic.Int64
	heldBack, overdue atomic.Uint64
	hotLoops          atomic.Uint64
	durations         [len(durationBuckets) + 1]atomic.Uint64
	nanoseconds       atomic.Uint64
}

// count adds a reconcile.
func (s *stats) count(o inspect.Outcome, d time.Duration) {
	s.reconciles[o].Add(1)
	s.nanoseconds.Add(uint64(d))
	i, seconds := 0, d.Seconds()
	for i < len(durationBuckets) && seconds > durationBuckets[i] {
		i++
	}
	s.durations[i].Add(1)
}

// durationBuckets are the upper bounds of the histogram of durations, in seconds.
var durationBuckets = [...]float64{
	0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120,
}

// maxOutputs bounds the kinds that are remembered, since a controller may write
// any number of kinds.
const maxOutputs = 100

// outputs are the kinds that a controller has written. It is safe for concurrent
// use.
type outputs struct {
	mu    sync.Mutex // guards kinds
	kinds map[string]struct{}
}

// add is called after each reconcile.
func (o *outputs) add(writes []write) {
	if len(writes) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range writes {
		kind := kindOf(w.object)
		if _, ok := o.kinds[kind]; ok || len(o.kinds) >= maxOutputs {
			continue
		}
		if o.kinds == nil {
			o.kinds = map[string]struct{}{}
		}
		o.kinds[kind] = struct{}{}
	}
}

// list returns the kinds, sorted.
func (o *outputs) list() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.kinds))
}
