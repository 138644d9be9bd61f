package cache_test

import (
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/internal/bench/cache/load"
	"github.com/homeostat/homeostat/internal/share"
)

// BenchmarkPod compares the sharing of a Pod with the decoding that came before.
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
		s := share.New()
		kept, n := make([]*corev1.Pod, count), 0
		for b.Loop() {
			if n%count == 0 { // a Sharer sees each Pod once
				s = share.New()
				clear(kept)
			}
			p := decode(n)
			s.Object(p)
			kept[n%count] = p
			n++
		}
	})
}

// reportProcessorTime reports what all threads use until the end, besides
// allocations: on a shared machine the clock says little.
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
