package reconciletest

import (
	"sync"
	"testing"
)

// Fuzz explores schedules: each input is a seed, which is an order of everything and a few deviations. Without
// go test -fuzz it makes as many runs as [Options] has Seeds, and those in testdata; with it, Go's fuzzer goes on in as
// many processes as it is told, and keeps the seeds that fail.
//
//	func FuzzSchedule(f *testing.F) { reconciletest.Fuzz(f, webAppCase(), nil) }
func Fuzz(f *testing.F, c *Case, o *Options) {
	f.Helper()
	opts := o.withDefaults()
	for seed := range opts.Seeds {
		f.Add(uint32(seed + 1))
	}
	var once sync.Once
	var known *explorer
	f.Fuzz(func(t *testing.T, seed uint32) {
		x := newExplorer(t, c, o)
		once.Do(func() {
			if x.refer() {
				known = x
			}
		})
		if known == nil {
			t.Fatal(x.report.Failure)
		}
		x.reference, x.masked = known.reference, known.masked
		if !x.try(seeded(int(seed)+1, x.singles())) {
			t.Error(x.report.Failure)
		}
	})
}
