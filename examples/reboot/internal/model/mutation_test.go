//go:build mutate

package model_test

import (
	"testing"
	"time"

	"github.com/homeostat/homeostat/examples/reboot/internal/mutation"
	"github.com/homeostat/homeostat/internal/apisim"
)

// A mutant is a safeguard taken out, and the invariant that must break then.
type mutant struct {
	mutation mutation.Mutation
	breaks   string
	scenario func(seed uint64) scenario
}

func mutants() []mutant {
	return []mutant{
		{mutation.ReserveLock, "I2", everything},
		{mutation.ReserveLive, "I4", flapping},
		{mutation.GrantLock, "I6", everything},
		{mutation.AcceptLock, "I7", cordoning},
		{mutation.CompleteLock, "I6", hurried},
		{mutation.ReleaseLock, "I2", everything},
		{mutation.ReleaseVoid, "I2", pausing},
		{mutation.ReleaseBootID, "I3", sluggish},
		{mutation.RewriteLock, "I2", again},
		{mutation.RevokeLock, "I6", pausing},
		{mutation.Rewrite, "I2", wavering},
		{mutation.BootIDAssumed, "I6", everything},
		{mutation.BootIDIgnored, "I5", everything},
		{mutation.LiveCheck, "I3", abandoning},
	}
}

// cordoning has an administrator who cordons and uncordons.
func cordoning(seed uint64) scenario {
	s := everything(seed)
	s.withdraw, s.pause, s.replace, s.limits, s.abort, s.refuse, s.flap = false, false, false, false, false, false, false
	s.odds.Chaos = 0.2
	return s
}

// hurried has few nodes that are always in need, and calls that are very late.
func hurried(seed uint64) scenario {
	s := cordoning(seed)
	s.nodes, s.limit, s.requests, s.minReady, s.kubelet, s.late = 2, 2, 100, 0, 0, 0.01
	s.odds.Faults, s.odds.Fault = []apisim.Fault{apisim.Late}, 0.1
	s.odds.Chaos = 0.02
	return s
}

// wavering has an administrator who asks and withdraws, and room for all.
func wavering(seed uint64) scenario {
	s := hurried(seed)
	s.withdraw, s.odds.Chaos = true, 0.1
	return s
}

// pausing has an administrator who pauses and resumes.
func pausing(seed uint64) scenario {
	s := hurried(seed)
	s.pause, s.odds.Chaos, s.late = true, 0.1, 0.03
	return s
}

// again has nodes that are needed again before they are back.
func again(seed uint64) scenario {
	s := hurried(seed)
	s.nodes, s.limit, s.kubelet = 4, 3, 3*time.Second
	s.odds.Fault = 0.2
	return s
}

// abandoning has an administrator who calls reboots off.
func abandoning(seed uint64) scenario {
	s := hurried(seed)
	s.abort, s.odds.Chaos = true, 0.1
	return s
}

// sluggish has kubelets that are later than agents.
func sluggish(seed uint64) scenario {
	s := cordoning(seed)
	s.minReady, s.kubelet = 0, 20*time.Second
	s.odds.Chaos = 0.01
	return s
}

// flapping has nodes that come and go, and room for two.
func flapping(seed uint64) scenario {
	s := everything(seed)
	s.limit, s.nodes = 2, 5
	s.withdraw, s.pause, s.replace, s.limits, s.abort, s.refuse = false, false, false, false, false, false
	s.odds.Chaos = 0.2
	return s
}

// most is how many seeds may be needed to find out.
const most = 400

func TestMutations(t *testing.T) {
	for _, m := range mutants() {
		t.Run(string(m.mutation), func(t *testing.T) {
			defer mutation.Switch(m.mutation)()
			steps := 0
			for seed := uint64(1); seed <= most; seed++ {
				r := run(t, m.scenario(seed), seed, m.breaks)
				if steps += r.steps; r.violation != nil {
					t.Logf("%s breaks at seed %d, after %d steps: %s", m.breaks, seed, steps, r.violation.what)
					return
				}
			}
			t.Errorf("%s does not break in %d seeds, %d steps: the safeguard is not needed, or the model is too weak",
				m.breaks, most, steps)
		})
	}
}
