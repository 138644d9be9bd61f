// Command syncing measures what it costs to fill a cache with Pods over HTTP:
// time, peak memory of the process, and memory that stays. Each implementation
// runs in a process of its own against one server process.
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
		Implementations: rival.Caches(),
		Head:            "time to sync | CPU time | heap per Pod | heap objects per Pod | peak RSS",
		Measure: func(impl, url string, pods int) (string, error) {
			return measure(impl, url, pods, *profile)
		},
	}.Main()
}

func measure(impl, url string, pods int, profile string) (row string, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	before, began := apart.Heap(), time.Now()
	cache, err := rival.Sync(ctx, impl, url, nil)
	if err != nil {
		return "", err
	}
	took := time.Since(began)
	cpu, err := apart.CPUTime()
	if err != nil {
		return "", err
	}
	peak, err := apart.PeakRSS()
	if err != nil {
		return "", err
	}
	after := apart.Heap()
	if n := cache.Len(); n != pods {
		return "", fmt.Errorf("the cache holds %d Pods, not %d", n, pods)
	}
	if profile != "" {
		err = writeProfile(profile)
	}
	runtime.KeepAlive(cache)
	bytes := (after.HeapAlloc - before.HeapAlloc) / uint64(pods)
	objects := float64(after.HeapObjects-before.HeapObjects) / float64(pods)
	return fmt.Sprintf("%.2f s | %.2f s | %d B | %.1f | %d MB",
		took.Seconds(), cpu.Seconds(), bytes, objects, peak>>20), err
}

func writeProfile(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing the profile: %w", err)
	}
	return errors.Join(pprof.WriteHeapProfile(file), file.Close())
}
