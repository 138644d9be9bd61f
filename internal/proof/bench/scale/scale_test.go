// Package scale_test simulates many replicas that share many objects, in virtual time:
//
//	cd internal/proof/bench && go test ./scale -v -timeout 10m -out ../../../../docs/benchmarks/scaling.txt
//
// The replicas are package leader/shard as it ships, and their records are on the simulated API server; a request takes 10 ms. The
// 1,000,000 objects are numbers, how many each namespace has: what a replica's caches take is measured by
// internal/proof/bench/cache.
package scale_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	. "github.com/onsi/gomega"
)

const (
	objects    = 1_000_000
	replicas   = 16
	namespaces = 10_000
	roundTrip  = 10 * time.Millisecond
	draining   = 100 * time.Millisecond // of a slot
	quiet      = 30 * time.Second       // without a change of owners, all is balanced
)

var out = flag.String("out", "", "`file` for the table")

// phase is what happened from a disturbance until all was quiet again.
type phase struct {
	owned, balanced    time.Duration // until every slot has an owner, until the last one has changed
	moved              int           // slots that have another owner
	movedObjects       float64       // of them all
	heaviest, lightest float64       // replica's objects, beside the mean
	traffic            messages      // of all replicas
}

// result is one run.
type result struct {
	slots             int
	start, join, kill phase
	minute            messages      // undisturbed, of one replica
	processor         time.Duration // of one replica in that minute, with its part of the simulated server
	memory            float64       // KiB of heap, of one replica
	records           float64       // KiB on the server
}

func TestScale(t *testing.T) {
	var all []result
	for _, slots := range []int{64, 256, 1024} {
		t.Run(fmt.Sprintf("shards=%d", slots), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { all = append(all, simulate(t, slots)) })
		})
	}
	if t.Failed() {
		return
	}
	text := table(all)
	t.Log("\n" + text)
	if *out != "" {
		NewWithT(t).Expect(os.WriteFile(*out, []byte(text), 0o600)).To(Succeed())
	}
}

func simulate(t *testing.T, slots int) result {
	w := newWorld(t, slots)
	r := result{slots: slots}
	name := func(n int) string { return fmt.Sprintf("replica-%02d", n) }
	before := heap()
	r.start = w.disturb(func() {
		for n := range replicas {
			w.join(name(n))
		}
	})
	processor := processorTime()
	<-time.After(time.Minute)
	r.minute = w.traffic.take().part(replicas)
	r.processor = (processorTime() - processor) / replicas
	r.memory = float64(heap()-before) / 1024 / replicas
	r.join = w.disturb(func() { w.join(name(replicas)) })
	r.kill = w.disturb(func() { w.kill(name(7)) })
	w.stop()
	r.records = w.recordsSize()
	w.Expect(w.faults).To(BeEmpty())
	w.Expect(r.kill.owned).To(BeNumerically("<=", 30*time.Second))
	return r
}

// weights returns how many objects each namespace has: a few have hundreds of times as many as most.
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

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // of oneself it is always allowed
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// table has a column for each run.
func table(all []result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d objects in %d namespaces, %d replicas, %v for a request, %v for a drain\n\n",
		objects, namespaces, replicas, roundTrip, draining)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(name, format string, value func(result) any) {
		fmt.Fprint(w, name, "\t")
		for _, r := range all {
			fmt.Fprintf(w, format+"\t", value(r))
		}
		fmt.Fprintln(w)
	}
	line("", "%d shards", func(r result) any { return r.slots })
	for _, p := range []struct {
		name string
		of   func(result) phase
	}{
		{"all start", func(r result) phase { return r.start }},
		{"one more joins", func(r result) phase { return r.join }},
		{"one is killed", func(r result) phase { return r.kill }},
	} {
		fmt.Fprintf(w, "%s%s\n", p.name, strings.Repeat("\t", len(all)+1))
		line("every shard has an owner after", "%.1f s", func(r result) any { return p.of(r).owned.Seconds() })
		line("the last shard has moved after", "%.1f s", func(r result) any { return p.of(r).balanced.Seconds() })
		line("shards that moved", "%d", func(r result) any { return p.of(r).moved })
		line("objects in them", "%.1f %%", func(r result) any { return 100 * p.of(r).movedObjects })
		line("heaviest replica, beside the mean", "%.2f", func(r result) any { return p.of(r).heaviest })
		line("lightest replica, beside the mean", "%.2f", func(r result) any { return p.of(r).lightest })
		line("requests of all replicas", "%d", func(r result) any { return p.of(r).traffic.requests })
		line("events to all replicas", "%d", func(r result) any { return p.of(r).traffic.events })
		line("received", "%.1f MiB", func(r result) any { return float64(p.of(r).traffic.received) / (1 << 20) })
	}
	fmt.Fprintf(w, "undisturbed, one of 16 replicas%s\n", strings.Repeat("\t", len(all)+1))
	line("requests in a minute", "%d", func(r result) any { return r.minute.requests })
	line("events in a minute", "%d", func(r result) any { return r.minute.events })
	line("received in a minute", "%.1f KiB", func(r result) any { return float64(r.minute.received) / 1024 })
	line("processor time in a minute, with the simulated server's", "%d ms", func(r result) any { return r.processor.Milliseconds() })
	line("heap, with its part of the simulated server's", "%.0f KiB", func(r result) any { return r.memory })
	line("all records as JSON", "%.0f KiB", func(r result) any { return r.records })
	_ = w.Flush() // to memory
	return b.String()
}
