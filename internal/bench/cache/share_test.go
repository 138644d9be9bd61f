package cache_test

import (
	"testing"

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
		b.ReportAllocs()
		kept, n := make([]*corev1.Pod, count), 0
		for b.Loop() {
			kept[n%count] = decode(n)
			n++
		}
	})
	b.Run("decode-and-share", func(b *testing.B) {
		b.ReportAllocs()
		s := share.New()
		kept, n := make([]*corev1.Pod, count), 0
		for b.Loop() {
			p := decode(n)
			s.Object(p)
			kept[n%count] = p
			n++
		}
	})
}
