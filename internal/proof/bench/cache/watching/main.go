// Command watching measures how fast a cache handles the events of a watch over
// HTTP, from the bytes to the handler: events per second, and the cost of one.
// Each implementation runs in its own process against one server process that
// sends prepared bytes as fast as they are read.
//
//	go run ./cache/watching
package main

import (
	"context"
	"flag"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/homeostat/homeostat/internal/proof/bench/cache/apart"
	"github.com/homeostat/homeostat/internal/proof/bench/cache/rival"
)

func main() {
	events := flag.Int("events", 100_000, "number of events")
	apart.Program{
		Name: "Events",
		Implementations: []string{
			"floor", "homeostat", "homeostat-without-sharing", "client-go", "controller-runtime",
			"controller-runtime-with-our-informer",
		},
		Measure: func(impl, url string, pods int) ([]apart.Value, error) {
			return measure(impl, url, pods, *events)
		},
	}.Main()
}

// counter counts events, and sends a signal each time the count reaches one of
// its goals.
type counter struct {
	n       atomic.Int64
	goals   [2]int64
	reached chan struct{}
}

func (c *counter) count() {
	if n := c.n.Add(1); n == c.goals[0] || n == c.goals[1] {
		c.reached <- struct{}{}
	}
}

func measure(impl, url string, pods, events int) ([]apart.Value, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := &counter{goals: [2]int64{int64(pods), int64(pods + events)}, reached: make(chan struct{}, 2)}
	if _, err := rival.Sync(ctx, impl, url, c.count); err != nil {
		return nil, err
	}
	<-c.reached
	start, began := apart.Heap(), time.Now()
	used, err := apart.CPUTime()
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- apart.Order(url, events, "") }()
	<-c.reached
	took := time.Since(began)
	if err := <-ended; err != nil {
		return nil, err
	}
	cpu, err := apart.CPUTime()
	if err != nil {
		return nil, err
	}
	var end runtime.MemStats
	runtime.ReadMemStats(&end)
	n := float64(events)
	return []apart.Value{
		{Number: float64(took.Nanoseconds()) / n / 1000, Unit: "µs/event"},
		{Number: float64((cpu - used).Nanoseconds()) / n / 1000, Unit: "cpu-µs/event"},
		{Number: float64(end.Mallocs-start.Mallocs) / n, Unit: "allocs/event"},
		{Number: float64(end.TotalAlloc-start.TotalAlloc) / n, Unit: "B/event"},
	}, nil
}
