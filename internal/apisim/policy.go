package apisim

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Choice is what a policy chooses to do next: it takes an action, or waits.
type Choice struct {
	Index int
	Fault Fault
	// Wait is the time that passes instead of an action, unless it is zero.
	Wait time.Duration
}

// Policy chooses the next action. It returns false to take none of the enabled
// actions. The run then waits until another action is enabled.
type Policy interface {
	Pick(enabled []Action) (Choice, bool)
}

// Benign is the policy of a run without disturbances. It prefers events to
// calls and calls to workload, and takes neither faults, bookmarks nor chaos.
type Benign struct{}

// Pick takes the first action. It returns false if there are no actions other
// than bookmarks and chaos, which come last in enabled.
func (Benign) Pick(enabled []Action) (Choice, bool) {
	if len(enabled) == 0 || enabled[0].Kind >= Bookmark {
		return Choice{}, false
	}
	return Choice{}, true
}

// Odds are the probabilities, from 0 to 1, with which [Random] disturbs a run.
type Odds struct {
	Fault    float64       // the probability that a released call gets one of Faults
	Faults   []Fault       // the faults that calls get; defaults to all from Internal to CrashAfter
	Drop     float64       // the probability that a delivery ends its stream, with 410 in half of the cases
	Chaos    float64       // the probability that a step takes a chaos action, if one is enabled
	Bookmark float64       // the probability that a step sends a bookmark, if one is due
	Wait     float64       // the probability that a step lets time pass
	MaxWait  time.Duration // the longest time that one step lets pass
}

// Random is a seeded policy. The same seed makes the same choices from the same
// actions.
type Random struct {
	rng  *rand.Rand
	odds Odds
	calm bool
}

var callFaults = []Fault{Internal, Conflict, Throttled, Unreachable, LostReply, Late, CrashBefore, CrashAfter}

// NewRandom returns the policy of a seed.
func NewRandom(seed uint64, odds Odds) *Random {
	if odds.Faults == nil {
		odds.Faults = callFaults
	}
	return &Random{rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), odds: odds}
}

// Calm turns faults, chaos, bookmarks and waiting off, or on again if calm is
// false. The order of actions stays random.
func (r *Random) Calm(calm bool) { r.calm = calm }

// Pick takes any action with equal probability, except for chaos, bookmarks and
// waiting, whose probabilities are in Odds.
func (r *Random) Pick(enabled []Action) (Choice, bool) {
	if c, ok := r.disturb(enabled); ok {
		return c, true
	}
	n := slices.IndexFunc(enabled, func(a Action) bool { return a.Kind >= Bookmark })
	if n < 0 {
		n = len(enabled)
	}
	if n == 0 {
		return Choice{}, false
	}
	c := Choice{Index: r.rng.IntN(n)}
	c.Fault = r.fault(enabled[c.Index])
	return c, true
}

func (r *Random) disturb(enabled []Action) (Choice, bool) {
	if r.calm {
		return Choice{}, false
	}
	if r.chance(r.odds.Wait) {
		return Choice{Wait: 1 + time.Duration(r.rng.Int64N(int64(max(r.odds.MaxWait, 1))))}, true
	}
	if i, ok := r.pickKind(enabled, Chaos, r.odds.Chaos); ok {
		return Choice{Index: i}, true
	}
	if i, ok := r.pickKind(enabled, Bookmark, r.odds.Bookmark); ok {
		return Choice{Index: i}, true
	}
	return Choice{}, false
}

// pickKind picks an action of this kind, with a probability of odds. It returns
// the action's index in enabled, or false if it picks none.
func (r *Random) pickKind(enabled []Action, kind ActionKind, odds float64) (int, bool) {
	start := slices.IndexFunc(enabled, func(a Action) bool { return a.Kind == kind })
	if start < 0 || !r.chance(odds) {
		return 0, false
	}
	n := 0
	for _, a := range enabled[start:] {
		if a.Kind == kind {
			n++
		}
	}
	return start + r.rng.IntN(n), true
}

func (r *Random) chance(p float64) bool { return p > 0 && r.rng.Float64() < p }

func (r *Random) fault(a Action) Fault {
	switch {
	case r.calm:
		return NoFault
	case a.Kind == Deliver && r.chance(r.odds.Drop):
		return []Fault{Dropped, Expired}[r.rng.IntN(2)]
	case a.Kind == Release && r.chance(r.odds.Fault):
		return r.odds.Faults[r.rng.IntN(len(r.odds.Faults))]
	}
	return NoFault
}
