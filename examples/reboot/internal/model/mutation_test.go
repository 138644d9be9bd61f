//go:build mutate

package model_test

import (
	"strings"
	"testing"
	"time"

	"github.com/homeostat/homeostat/examples/reboot/internal/mutation"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// A mutant is a safeguard taken out, the invariant that must break then, and the case
// in which an exploration finds that.
type mutant struct {
	mutation mutation.Mutation
	breaks   string
	in       func() *reconciletest.Case
}

func mutants() []mutant {
	return []mutant{
		{mutation.ReserveLock, "I4", duel},
		{mutation.ReserveLive, "I4", failing},
		{mutation.GrantLock, "I6", duel},
		{mutation.AcceptLock, "I6", meddling},
		{mutation.CompleteLock, "I6", twins},
		{mutation.ReleaseLock, "I2", duel},
		{mutation.ReleaseBootID, "I3", duel},
		{mutation.RewriteLock, "I4", duel},
		{mutation.RevokeLock, "I6", revoking},
		{mutation.Rewrite, "I5", duel},
		{mutation.BootIDAssumed, "I6", meddling},
		{mutation.BootIDIgnored, "I5", twins},
		{mutation.LiveCheck, "I3", meddling},
	}
}

// long is more than any of them takes on a busy machine: what is found does not depend
// on the time, as the runs are the same ones in the same order.
const long = 5 * time.Minute

func TestMutationsAreFoundByExploring(t *testing.T) {
	for _, m := range mutants() {
		t.Run(string(m.mutation), func(t *testing.T) {
			defer mutation.Switch(m.mutation)()
			o := options()
			o.Budget = long
			r := reconciletest.Search(t, m.in(), o)
			found, _, _ := strings.Cut(r.Failure, "\n")
			if r.Oracle != "always" || !strings.Contains(found, ": "+m.breaks+": ") {
				t.Fatalf("want %s broken, and the exploration says: %s %q, after %s", m.breaks, r.Oracle, r.Failure, r)
			}
			t.Logf("%d runs: %s", r.Runs, found)
		})
	}
}

// pausing has an administrator who pauses and resumes.
func pausing(seed uint64) scenario {
	s := everything(seed)
	s.withdraw, s.cordon, s.replace, s.limits, s.abort, s.refuse, s.flap = false, true, false, false, false, false, false
	s.nodes, s.limit, s.requests, s.minReady, s.kubelet, s.late = 2, 2, 100, 0, 0, 0.03
	s.odds.Faults, s.odds.Fault = []apisim.Fault{apisim.Late}, 0.1
	s.odds.Chaos = 0.1
	return s
}

// most is how many seeds may be needed to find out.
const most = 400

// A slot must not be released while a grant of its epoch may be on its way. For that to
// go wrong one controller has to be just before its grant, another one must not have
// granted yet, and the group must be paused in between: a step of the workload that comes
// early and a call that is late, and those an exploration does not try in pairs. The
// model does anything at any time.
func TestMutationIsFoundByTheModel(t *testing.T) {
	defer mutation.Switch(mutation.ReleaseVoid)()
	steps := 0
	for seed := uint64(1); seed <= most; seed++ {
		r := run(t, pausing(seed), seed, "I2")
		if steps += r.steps; r.violation != nil {
			t.Logf("I2 breaks at seed %d, after %d steps: %s", seed, steps, r.violation.what)
			return
		}
	}
	t.Errorf("I2 does not break in %d seeds, %d steps: the safeguard is not needed, or the model is too weak", most, steps)
}
