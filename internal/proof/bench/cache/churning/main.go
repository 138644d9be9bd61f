// Command churning measures the processor time of a whole controller while the
// status of Pods changes at a steady rate. It includes HTTP, the cache, the
// queue and the reconciler. The reconciler reads the Pod and writes no objects.
// Each implementation runs in its own process against one server process.
// "homeostat-decoding-all" is Homeostat with a client whose watches decode
// every spec, even if it has not changed.
//
//	go run ./cache/churning -pods 20000
package main

import (
	"context"
	"flag"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/internal/proof/bench/cache/apart"
	"github.com/homeostat/homeostat/internal/proof/bench/cache/load"
	"github.com/homeostat/homeostat/internal/proof/bench/cache/rival"
)

func main() {
	events := flag.Int("events", 15_000, "number of updates")
	interval := flag.Duration("every", 2*time.Millisecond, "time from one update to the next")
	apart.Program{
		Name:            "Churn",
		Implementations: rival.Loops(),
		Measure: func(impl, url string, pods int) ([]apart.Value, error) {
			return measure(impl, url, pods, *events, *interval)
		},
	}.Main()
}

func measure(impl, url string, pods, events int, interval time.Duration) ([]apart.Value, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var reconciles, fresh atomic.Int64
	listed := make(chan struct{})
	work := func(pod *corev1.Pod) {
		if reconciles.Add(1) == int64(pods) {
			close(listed)
		}
		if _, ok := load.SentAt(pod); ok {
			fresh.Add(1)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- rival.Loop(ctx, impl, url, 4, work) }()
	select {
	case <-listed:
	case err := <-ended:
		return nil, err
	}
	start := apart.Heap()
	used, err := apart.CPUTime()
	if err != nil {
		return nil, err
	}
	if err := apart.Order(url, events, interval.String()); err != nil {
		return nil, err
	}
	cpu, err := apart.CPUTime()
	if err != nil {
		return nil, err
	}
	seen := fresh.Load()
	end := apart.Heap()
	cancel()
	n := float64(events)
	return []apart.Value{
		{Number: float64((cpu - used).Nanoseconds()) / n / 1000, Unit: "cpu-µs/event"},
		{Number: float64(end.Mallocs-start.Mallocs) / n, Unit: "allocs/event"},
		{Number: float64(end.TotalAlloc-start.TotalAlloc) / n, Unit: "B/event"},
		{Number: float64(seen) / n, Unit: "reconciles/event"},
	}, <-ended
}
