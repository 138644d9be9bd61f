// Command syncing measures the cost of filling a cache with Pods over HTTP: the
// time, the peak memory of the process, and the memory that remains in use.
// Each implementation runs in its own process against one server process.
//
//	go run ./cache/syncing -pods 100000
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/homeostat/homeostat/internal/proof/bench/cache/apart"
	"github.com/homeostat/homeostat/internal/proof/bench/cache/rival"
)

func main() {
	profile := flag.String("memprofile", "", "write a profile of the heap of the last implementation to this file")
	apart.Program{
		Name:            "Sync",
		Implementations: rival.Caches(),
		Measure: func(impl, url string, pods int) ([]apart.Value, error) {
			return measure(impl, url, pods, *profile)
		},
	}.Main()
}

func measure(impl, url string, pods int, profile string) (values []apart.Value, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	start, began := apart.Heap(), time.Now()
	cache, err := rival.Sync(ctx, impl, url, nil)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	cpu, err := apart.CPUTime()
	if err != nil {
		return nil, err
	}
	peak, err := apart.PeakRSS()
	if err != nil {
		return nil, err
	}
	end := apart.Heap()
	if n := cache.Len(); n != pods {
		return nil, fmt.Errorf("the cache contains %d Pods: want %d", n, pods)
	}
	if profile != "" {
		err = writeProfile(profile)
	}
	runtime.KeepAlive(cache)
	return []apart.Value{
		{Number: took.Seconds(), Unit: "s"},
		{Number: cpu.Seconds(), Unit: "cpu-s"},
		{Number: float64(end.HeapAlloc-start.HeapAlloc) / float64(pods), Unit: "heap-B/Pod"},
		{Number: float64(end.HeapObjects-start.HeapObjects) / float64(pods), Unit: "heap-objects/Pod"},
		{Number: float64(peak >> 20), Unit: "peak-MiB"},
	}, err
}

func writeProfile(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing the profile: %w", err)
	}
	return errors.Join(pprof.WriteHeapProfile(file), file.Close())
}
