// Command flooding measures how long a new update waits to be reconciled while
// the objects of a first list wait for their first reconcile. The time includes
// the server, HTTP, the cache, the queue and the reconciler. The server writes
// the time of sending into the resourceVersion. A reconcile takes a
// millisecond. Each implementation runs in its own process against one server
// process.
//
//	go run ./cache/flooding -pods 100000
package main

import (
	"context"
	"flag"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/internal/proof/bench/cache/apart"
	"github.com/homeostat/homeostat/internal/proof/bench/cache/load"
	"github.com/homeostat/homeostat/internal/proof/bench/cache/rival"
)

func main() {
	workers := flag.Int("workers", 16, "workers of the loop")
	updates := flag.Int("updates", 400, "fresh updates")
	interval := flag.Duration("every", 5*time.Millisecond, "time from one update to the next")
	apart.Program{
		Name:            "FreshUpdate",
		Implementations: rival.Loops(),
		Measure: func(impl, url string, pods int) ([]apart.Value, error) {
			f := &flood{
				pods: pods, updates: *updates, began: time.Now(),
				flowing: make(chan struct{}), finished: make(chan struct{}),
			}
			return f.measure(impl, url, *workers, *interval)
		},
	}.Main()
}

// A flood consists of the first reconciles of all Pods, and the updates during
// that time.
type flood struct {
	pods, updates     int
	began             time.Time
	flowing, finished chan struct{} // closed after enough reconciles; closed when all Pods and updates were reconciled

	mu          sync.Mutex // guards the fields below
	first, last time.Duration
	known       map[string]struct{} // names of Pods that have been reconciled
	versions    map[string]struct{} // the resourceVersions of updates
	delays      []time.Duration
}

// enough is the number of reconciles after which the flood is considered to be
// in progress.
const enough = 100

func (f *flood) reconcile(pod *corev1.Pod) {
	now := time.Now()
	f.note(pod, now)
	<-time.After(time.Millisecond)
}

func (f *flood) note(pod *corev1.Pod, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known, f.versions, f.first = make(map[string]struct{}, f.pods), map[string]struct{}{}, now.Sub(f.began)
	}
	count := len(f.known)
	f.known[pod.Name] = struct{}{}
	fresh := false
	if sent, ok := load.SentAt(pod); ok {
		if _, seen := f.versions[pod.ResourceVersion]; !seen {
			f.versions[pod.ResourceVersion] = struct{}{}
			f.delays = append(f.delays, now.Sub(sent))
			fresh = true
		}
	}
	if len(f.known) == enough && count < enough {
		close(f.flowing)
	}
	if (fresh || len(f.known) > count) && len(f.known) == f.pods && len(f.delays) == f.updates {
		f.last = now.Sub(f.began)
		close(f.finished)
	}
}

func (f *flood) measure(impl, url string, workers int, interval time.Duration) ([]apart.Value, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- rival.Loop(ctx, impl, url, workers, f.reconcile) }()
	select {
	case <-f.flowing:
	case err := <-ended:
		return nil, err
	}
	if err := apart.Order(url, f.updates, interval.String()); err != nil {
		return nil, err
	}
	<-f.finished
	cpu, err := apart.CPUTime()
	if err != nil {
		return nil, err
	}
	cancel()
	if err := <-ended; err != nil {
		return nil, err
	}
	slices.Sort(f.delays)
	ms := func(share float64) float64 {
		return f.delays[min(int(share*float64(len(f.delays))), len(f.delays)-1)].Seconds() * 1000
	}
	return []apart.Value{
		{Number: ms(0.5), Unit: "p50-ms"},
		{Number: ms(0.99), Unit: "p99-ms"},
		{Number: ms(1), Unit: "most-ms"},
		{Number: f.first.Seconds(), Unit: "first-s"},
		{Number: f.last.Seconds(), Unit: "all-s"},
		{Number: cpu.Seconds(), Unit: "cpu-s"},
	}, nil
}
