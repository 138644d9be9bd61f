package reconciletest

import (
	"sync"
	"testing"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
)

// Replay replays the run of a token that a failed [Explore] has printed. Pass
// the case and the options of the exploration. If the run still fails, Replay
// fails the test with the counter-example. If the run passes, but takes a
// different path than the token describes, Replay fails the test as well,
// because the bug may still exist. Explore again in this case. If the token
// cannot be read, Replay ends the test at once, with Fatal.
//
// Concurrency: tests that call Replay cannot be parallel, as with [Explore].
func Replay(t *testing.T, c *Case, o *Options, token string) {
	t.Helper()
	if failure := replay(t, c, o, token); failure != "" {
		t.Error(failure)
	}
}

// replay returns the failure of the replayed run, or "" if it passes. If the
// run passes but takes a different path than the token, replay returns a text
// that says so.
func replay(t *testing.T, c *Case, o *Options, text string) string {
	t.Helper()
	p, hash, cut, err := plan.ParseToken(text)
	if err != nil {
		t.Fatal(err)
	}
	x := newExplorer(t, c, o)
	x.c, x.omitted = applyCut(cut, c), cut
	if !x.begin() || len(p) == 0 {
		return x.report.Failure
	}
	var out *outcome
	for range 1 + extraRuns { // more than once only if the program decides by chance
		out = x.play(p, setting{seed: 1})
		if x.assess(p, out); out.finding != nil || out.hash() == hash || x.report.Chance == "" {
			break
		}
	}
	switch {
	case out.finding != nil:
		x.fail(p, out)
	case out.hash() != hash:
		x.report.Failure = "the trace no longer applies: the program passes, " +
			"but takes a different path than the token. Explore again."
	}
	return x.report.Failure
}

// Fuzz explores schedules. Each input is a seed. It determines the order of all
// steps and a few deviations. Without go test -fuzz, it makes a run for each of
// Options.Seeds seeds, and for each seed in testdata. With go test -fuzz, Go's
// fuzzer then continues in as many processes as requested, and keeps the seeds
// that fail.
//
//	func FuzzSchedule(f *testing.F) { reconciletest.Fuzz(f, webAppCase(), nil) }
//
// A failing seed reports its counter-example. If a run without faults fails,
// every seed fails. If the case or the options are wrong, Fuzz ends the test at
// once, with Fatal.
//
// Concurrency: tests that call Fuzz cannot be parallel, as with [Explore].
func Fuzz(f *testing.F, c *Case, o *Options) {
	f.Helper()
	opts := o.withDefaults()
	for seed := range opts.Seeds {
		f.Add(uint32(seed + 1))
	}
	var once sync.Once
	var base *explorer
	f.Fuzz(func(t *testing.T, seed uint32) {
		x := newExplorer(t, c, o)
		once.Do(func() {
			if x.begin() {
				base = x
			}
		})
		if base == nil {
			t.Fatal(x.report.Failure)
		}
		x.reference, x.masked = base.reference, base.masked
		if !x.try(seeded(int(seed)+1, x.planner().singles())) {
			t.Error(x.report.Failure)
		}
	})
}
