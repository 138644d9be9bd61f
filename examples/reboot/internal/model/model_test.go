//go:debug randseednop=0

package model_test

import (
	"flag"
	"fmt"
	mathrand "math/rand"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/apisim"
)

var oneSeed = flag.Uint64("seed", 0, "replay this seed of the model, and print the trace if it fails")

// result is the outcome of one run of the model.
type result struct {
	steps, reserved int
	violation       *violation
	trace           []string
}

// everything is a world in which all can go wrong.
func everything(seed uint64) scenario {
	return scenario{
		nodes: 3 + int(seed%3), limit: 1 + int(seed%2), steps: 1500, requests: 40,
		minReady: int32(seed % 2 * 2), kubelet: time.Duration(seed%3) * time.Second, late: 0.1,
		odds: apisim.Odds{
			Fault: 0.06, Drop: 0.01, Chaos: 0.08, Bookmark: 0.02, Wait: 0.05, MaxWait: 3 * time.Second,
		},
		withdraw: true, pause: true, cordon: true, flap: true, replace: true, limits: true, abort: true,
		refuse: true, kill: true, pods: true, windows: seed%4 == 0, pools: seed%2 == 0, gate: seed%5 == 0, drain: []string{"abort", "wait", "force"}[seed%3],
	}
}

// A tardy policy is a random one under which late calls take their time.
type tardy struct {
	*apisim.Random
	rng  *rand.Rand
	late float64
}

func (p *tardy) Pick(enabled []apisim.Action) (apisim.Choice, bool) {
	if p.rng.Float64() < p.late {
		return p.Random.Pick(enabled)
	}
	// Late calls stand together: hide them, and undo that in the index.
	first := slices.IndexFunc(enabled, func(a apisim.Action) bool { return a.Kind == apisim.Commit })
	rest := slices.DeleteFunc(slices.Clone(enabled), func(a apisim.Action) bool { return a.Kind == apisim.Commit })
	choice, ok := p.Random.Pick(rest)
	if ok && first >= 0 && choice.Index >= first {
		choice.Index += len(enabled) - len(rest)
	}
	return choice, ok
}

// run plays one seed of a scenario, first wildly, then calmly to the end, or
// until the wanted invariant is broken: any if it is "".
func run(t *testing.T, s scenario, seed uint64, want string) result {
	var r result
	mathrand.Seed(int64(seed)) //nolint:staticcheck // client-go takes its jitter from there
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, s)
		policy := &tardy{apisim.NewRandom(seed, s.odds), rand.New(rand.NewPCG(seed, 1)), s.late}
		broken := func() bool { return w.monitor.broken(want) != nil }
		limits := apisim.Limits{Steps: s.steps, Horizon: 10 * time.Minute, Stop: broken}
		w.sched.Run(policy, limits)
		if !broken() {
			w.calm(t.Context())
			policy.Calm(true)
			policy.late = 1
			limits.Steps = 20_000
			limits.Stop = func() bool { return broken() || w.monitor.settled() == "" }
			w.sched.Run(policy, limits)
			if left := w.monitor.settled(); !broken() && left != "" {
				w.monitor.violated("L1", "%s", left)
			}
		}
		r.steps, r.reserved = w.sched.Steps(), w.monitor.reserved
		if broken() {
			r.violation, r.trace = w.monitor.broken(want), w.sched.Trace()
		}
		w.stop()
	})
	return r
}

// explain words a failure so that it can be replayed.
func explain(r result, seed uint64) string {
	const most = 120
	trace := r.trace[max(0, len(r.trace)-most):]
	return fmt.Sprintf("%s: %s\nreplay: go test ./examples/reboot/internal/model -run TestModel -seed %d\n%s",
		r.violation.invariant, r.violation.what, seed, strings.Join(trace, "\n"))
}

var enough = flag.Int("steps", defaultSteps, "how many steps the model takes in all")

// replays is how often a seed is tried: goroutines that run at the same time in
// a process are not ordered by the schedule, so a seed may need some runs to
// fail again.
const replays = 50

func replay(t *testing.T, seed uint64) {
	for range replays {
		if r := run(t, everything(seed), seed, ""); r.violation != nil {
			t.Fatal(explain(r, seed))
		}
	}
	t.Logf("seed %d has not failed in %d runs", seed, replays)
}

func TestModel(t *testing.T) {
	g := gomega.NewWithT(t)
	if *oneSeed != 0 {
		replay(t, *oneSeed)
		return
	}
	steps, reserved, seeds := 0, 0, 0
	for seed := uint64(1); steps < *enough; seed++ {
		r := run(t, everything(seed), seed, "")
		if r.violation != nil {
			t.Fatal(explain(r, seed))
		}
		steps, reserved, seeds = steps+r.steps, reserved+r.reserved, seeds+1
	}
	t.Logf("%d steps of %d seeds, %d reservations", steps, seeds, reserved)
	g.Expect(reserved).To(gomega.BeNumerically(">", seeds), "the model must get somewhere")
}
