package cache_test

import (
	"fmt"
	"math/rand"
	"runtime"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/internal/intern"
	"github.com/homeostat/homeostat/internal/proof/bench/cache/apart"
	"github.com/homeostat/homeostat/internal/proof/bench/cache/load"
)

// BenchmarkPod compares the sharing of a Pod with the decoding that came
// before.
func BenchmarkPod(b *testing.B) {
	const count = 10_000
	encoded := make([][]byte, count)
	for n := range encoded {
		data, err := load.Pod(n).Marshal()
		must(b, err)
		encoded[n] = data
	}
	decode := func(n int) *corev1.Pod {
		p := &corev1.Pod{}
		must(b, p.Unmarshal(encoded[n%count]))
		return p
	}
	b.Run("decode", func(b *testing.B) {
		defer reportProcessorTime(b)()
		kept, n := make([]*corev1.Pod, count), 0
		for b.Loop() {
			kept[n%count] = decode(n)
			n++
		}
	})
	b.Run("decode-and-share", func(b *testing.B) {
		defer reportProcessorTime(b)()
		s := intern.New()
		kept, n := make([]*corev1.Pod, count), 0
		for b.Loop() {
			if n%count == 0 { // a Pool sees each Pod once
				s = intern.New()
				clear(kept)
			}
			p := decode(n)
			s.Object(p)
			kept[n%count] = p
			n++
		}
	})
}

// BenchmarkHeap prints how much of the heap a Pod takes when 24,000 are shared,
// relative to unshared ones, by the number of replicas of each Deployment: in
// the order of a list, and in a random one, as from watches.
func BenchmarkHeap(b *testing.B) {
	for _, shape := range []string{"full", "plain", "unlike"} {
		for _, order := range []string{"list", "random"} {
			for _, replicas := range []int{1, 2, 3, 12, 50} {
				name := fmt.Sprintf("shape=%s/order=%s/replicas=%d", shape, order, replicas)
				b.Run(name, func(b *testing.B) { compareHeaps(b, shape, order, replicas) })
			}
		}
	}
}

func compareHeaps(b *testing.B, shape, order string, replicas int) {
	const count = 24_000
	pod, err := load.Shape(shape)
	must(b, err)
	encoded := make([][]byte, count)
	for n := range encoded {
		encoded[n], err = pod(n/replicas*load.Replicas + n%replicas).Marshal()
		must(b, err)
	}
	if order == "random" {
		rand.New(rand.NewSource(1)).Shuffle(count, func(i, j int) { encoded[i], encoded[j] = encoded[j], encoded[i] })
	}
	for b.Loop() {
		plain := heapOf(b, encoded, func(*corev1.Pod) {})
		s := intern.New()
		shared := heapOf(b, encoded, func(p *corev1.Pod) { s.Object(p) })
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(shared, "B/Pod")
		b.ReportMetric(shared/plain, "of-unshared")
		b.ReportMetric(float64(s.Len())/count, "known/Pod")
	}
}

// heapOf returns how much of the heap a decoded Pod takes, after edit.
func heapOf(b *testing.B, encoded [][]byte, edit func(*corev1.Pod)) float64 {
	kept := make([]*corev1.Pod, len(encoded))
	before := apart.Heap()
	for i, data := range encoded {
		kept[i] = &corev1.Pod{}
		must(b, kept[i].Unmarshal(data))
		edit(kept[i])
	}
	after := apart.Heap()
	runtime.KeepAlive(kept)
	return float64(after.HeapAlloc-before.HeapAlloc) / float64(len(encoded))
}

// reportProcessorTime reports the processor time of all threads until the end,
// besides allocations: on a shared machine elapsed time means little.
func reportProcessorTime(b *testing.B) (end func()) {
	b.ReportAllocs()
	used := func() time.Duration {
		var u syscall.Rusage
		must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}
