package apisim

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Choice is the next action that a policy chooses.
type Choice struct {
	Index int
	Fault Fault
	// Wait, when it is not zero, lets that much time pass instead.
	Wait time.Duration
}

// Policy picks the next action; false: none of them, something else has to happen first.
type Policy interface {
	Pick(enabled []Action) (Choice, bool)
}

// Benign is the policy of a good day: events before calls, calls before workload, no faults, no chaos.
type Benign struct{}

// Pick takes the first action that is not chaos.
func (Benign) Pick(enabled []Action) (Choice, bool) {
	if len(enabled) == 0 || enabled[0].Kind >= Bookmark {
		return Choice{}, false
	}
	return Choice{}, true
}

// Odds are the shares, from 0 to 1, with which [Random] disturbs.
type Odds struct {
	Fault    float64       // of released calls that suffer one of Faults
	Faults   []Fault       // default: all that strike calls
	Drop     float64       // of deliveries that end their stream, half of them with 410
	Chaos    float64       // of steps that take a chaos action, when there is one
	Bookmark float64       // of steps that send a bookmark, when one is due
	Wait     float64       // of steps that let time pass
	MaxWait  time.Duration // the longest such time
}

// Random is a seeded policy: the same seed makes the same choices from the same actions.
type Random struct {
	rng  *rand.Rand
	odds Odds
	calm bool
}

var callFaults = []Fault{Internal, Conflict, Throttled, Unreachable, LostReply, Late, CrashBefore, CrashAfter}

// NewRandom makes the policy of a seed.
func NewRandom(seed uint64, odds Odds) *Random {
	if odds.Faults == nil {
		odds.Faults = callFaults
	}
	return &Random{rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), odds: odds}
}

// Calm ends (or, with false, begins again) faults, chaos and waiting; the order stays random.
func (r *Random) Calm(calm bool) { r.calm = calm }

// Pick takes any action with equal chance, apart from the rare ones.
func (r *Random) Pick(enabled []Action) (Choice, bool) {
	if c, ok := r.rare(enabled); ok {
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

func (r *Random) rare(enabled []Action) (Choice, bool) {
	if r.calm {
		return Choice{}, false
	}
	if r.chance(r.odds.Wait) {
		return Choice{Wait: 1 + time.Duration(r.rng.Int64N(int64(max(r.odds.MaxWait, 1))))}, true
	}
	if i, ok := r.any(enabled, Chaos, r.odds.Chaos); ok {
		return Choice{Index: i}, true
	}
	if i, ok := r.any(enabled, Bookmark, r.odds.Bookmark); ok {
		return Choice{Index: i}, true
	}
	return Choice{}, false
}

// any picks one action of a kind.
func (r *Random) any(enabled []Action, kind ActionKind, odds float64) (int, bool) {
	first := slices.IndexFunc(enabled, func(a Action) bool { return a.Kind == kind })
	if first < 0 || !r.chance(odds) {
		return 0, false
	}
	n := 0
	for _, a := range enabled[first:] {
		if a.Kind == kind {
			n++
		}
	}
	return first + r.rng.IntN(n), true
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
