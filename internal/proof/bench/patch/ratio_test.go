package patch_test

import (
	"runtime"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	rounds = 25
	batch  = 40 // edits of the rival in each round
	more   = 10 // times as many of ours, so that both take about as long
)

// BenchmarkInAlternation runs our patch and a rival's alternately, and reports
// the median of the ratios of their processor time, which is comparable even on
// a busy machine. Run it with -benchtime 1x.
func BenchmarkInAlternation(b *testing.B) {
	defer runtime.KeepAlive(cache())
	alternate[*corev1.Pod](b, "Pod", pod())
	alternate[*corev1.Node](b, "Node", node())
}

func alternate[T object](b *testing.B, kind string, obj T) {
	c := &sink[T]{answer: obj}
	eq, from := rival[T]{"deepequal", deepEqual[T]}, rival[T]{"mergefrom", mergeFrom[T]}
	strategic := rival[T]{"strategicmergefrom", strategicMergeFrom[T]}
	for _, row := range []struct {
		name, what  string
		ours, other rival[T]
	}{
		{"unchanged", "", merging(c), eq},
		{"merge", value, merging(c), from},
		{"merge", value, merging(c), strategic},
	} {
		b.Run("kind="+kind+"/row="+row.name+"/against="+row.other.name, func(b *testing.B) {
			for b.Loop() {
				ratios := make([]float64, rounds)
				for i := range ratios {
					ours := used(b, row.ours, obj, row.what, batch*more)
					theirs := used(b, row.other, obj, row.what, batch)
					ratios[i] = more * float64(theirs) / float64(max(ours, 1))
				}
				slices.Sort(ratios)
				b.ReportMetric(ratios[rounds/2], "times")
				b.ReportMetric(ratios[rounds/10], "times-p10")
			}
		})
	}
}

// used is the processor time of n edits.
func used[T object](b *testing.B, r rival[T], obj T, what string, n int) time.Duration {
	before := processorTime(b)
	for range n {
		r.make(b, obj, what)
	}
	return processorTime(b) - before
}
