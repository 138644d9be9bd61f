// Package scale_test simulates many replicas that share many objects, in
// virtual time:
//
//	cd internal/proof/bench && go test ./scale -v -timeout 10m
//
// It prints in the format of benchmarks, since a benchmark cannot run in
// virtual time, and make bench-report runs it. The replicas are package
// leader/shard as it ships, and their records are on the simulated API server;
// a request takes 10 ms. The 1,000,000 objects are only a number for each
// namespace: internal/proof/bench/cache measures the size of a replica's
// caches.
package scale_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

const (
	objects    = 1_000_000
	namespaces = 10_000
	roundTrip  = 10 * time.Millisecond
	draining   = 100 * time.Millisecond // of a slot
	quiet      = 30 * time.Second       // without a change of owners, all is balanced
)

// phase is the time from a disturbance until everything is quiet again.
type phase struct {
	owned, balanced    time.Duration // until every slot has an owner, until the last one has changed
	moved              int           // slots that have another owner
	movedObjects       float64       // of them all
	heaviest, lightest float64       // replica's objects, beside the mean
	traffic            messages      // of all replicas
}

// setting is the number of replicas, and whether slots are ranges of namespaces
// or hashes.
type setting struct {
	replicas, slots int
	ranges          bool
}

// result is one run.
type result struct {
	setting

	start, join, kill phase
	minute            messages      // undisturbed, of one replica
	processor         time.Duration // of one replica in that minute, with its part of the simulated server
	memory            float64       // KiB of heap, of one replica
	records           float64       // KiB on the server
}

func TestScale(t *testing.T) {
	_, _ = fmt.Fprintln(os.Stdout, "pkg: github.com/homeostat/homeostat/internal/proof/bench/scale")
	for _, s := range []setting{
		{16, 64, false},
		{16, 256, false},
		{16, 1024, false},
		{16, 64, true},
		{16, 256, true},
		{16, 1024, true},
		{4, 64, true},
		{32, 64, true},
	} {
		t.Run(fmt.Sprintf("%+v", s), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { _, _ = fmt.Fprint(os.Stdout, simulate(t, s)) })
		})
	}
}

func simulate(t *testing.T, s setting) result {
	w := newWorld(t, s)
	r := result{setting: s}
	name := func(n int) string { return fmt.Sprintf("replica-%02d", n) }
	before := heap()
	r.start = w.disturb(func() {
		for n := range s.replicas {
			w.join(name(n))
		}
	})
	processor := processorTime()
	<-time.After(time.Minute)
	r.minute = w.traffic.take().part(s.replicas)
	r.processor = (processorTime() - processor) / time.Duration(s.replicas)
	r.memory = float64(heap()-before) / 1024 / float64(s.replicas)
	r.join = w.disturb(func() { w.join(name(s.replicas)) })
	r.kill = w.disturb(func() { w.kill(name(s.replicas / 2)) })
	w.stop()
	r.records = w.recordsSize()
	w.Expect(w.faults).To(BeEmpty())
	w.Expect(r.kill.owned).To(BeNumerically("<=", 30*time.Second))
	if s.ranges && s.replicas <= 16 {
		w.Expect(r.start.heaviest).To(BeNumerically("<=", 1.2))
	}
	return r
}

// weights returns how many objects each namespace has: a few have hundreds of
// times as many as most.
func weights() map[string]int {
	random := rand.New(rand.NewPCG(1, 2))
	shares, total := make([]float64, namespaces), 0.0
	for n := range shares {
		shares[n] = 1 / float64(n+50)
		total += shares[n]
	}
	random.Shuffle(len(shares), func(a, b int) { shares[a], shares[b] = shares[b], shares[a] })
	all, sum, given := map[string]int{}, 0.0, 0
	for n, share := range shares {
		sum += share
		next := int(math.Round(sum / total * objects))
		all[fmt.Sprintf("tenant-%05d", n+1)] = next - given
		given = next
	}
	return all
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// processorTime returns the processor time of this process.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // of oneself it is always allowed
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// String returns the result as the lines of benchmarks.
func (r result) String() string {
	var b strings.Builder
	kind := "shards"
	if r.ranges {
		kind = "ranges"
	}
	line := func(name, format string, values ...any) {
		fmt.Fprintf(&b, "BenchmarkScale/%d-replicas/%s/impl=%d-%s 1 "+format+"\n",
			append([]any{r.replicas, name, r.slots, kind}, values...)...)
	}
	for _, p := range []struct {
		name string
		phase
	}{{"all-start", r.start}, {"one-more-joins", r.join}, {"one-is-killed", r.kill}} {
		line(p.name, "%.1f until-all-are-owned-s %.1f until-the-last-has-moved-s %d moved-shards %.1f %%-of-objects-moved "+
			"%.2f heaviest/mean %.2f lightest/mean %d requests %d events %.1f received-MiB",
			p.owned.Seconds(), p.balanced.Seconds(), p.moved, 100*p.movedObjects, p.heaviest, p.lightest,
			p.traffic.requests, p.traffic.events, float64(p.traffic.received)/(1<<20))
	}
	line("one-replica-undisturbed", "%d requests/minute %d events/minute %.1f received-KiB/minute %d cpu-ms/minute "+
		"%.0f heap-KiB %.0f records-KiB", r.minute.requests, r.minute.events, float64(r.minute.received)/1024,
		r.processor.Milliseconds(), r.memory, r.records)
	return b.String()
}
