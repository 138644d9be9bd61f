package reconciletest

import (
	"time"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/backend"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// skews returns, by client, how far the server's clock is ahead of the clock of
// a replica. It returns nil if all clocks agree.
//
// All replicas share the clock of the bubble. So the server translates the
// times that a replica reads and writes. For the replica, that is the same as a
// clock of its own.
func skews(p plan.Plan) func(client string) time.Duration {
	var offset time.Duration
	switch p.Clock() {
	case plan.Ahead, plan.LoneAhead:
		offset = skew
	case plan.Behind, plan.LoneBehind:
		offset = -skew
	case plan.FarAhead:
		offset = farSkew
	default:
		return nil
	}
	isLone := p.Clock() == plan.LoneAhead || p.Clock() == plan.LoneBehind
	return func(client string) time.Duration {
		if isLone && client != backend.ClientOf(2, 0) {
			return 0
		}
		return offset
	}
}

// clocks returns plans in which the clocks of the replicas differ from the
// server's clock. With several replicas, it also returns plans in which only
// the clock of one replica differs.
//
// No plan sets the server's clock hours behind, because new objects would then
// look hours old to the program. A program that acts on the age of an object,
// for example by deleting objects that are older than an hour, would act too
// early. No tolerance for clock differences prevents that, and waiting does not
// correct it.
func (p *planner) clocks() []plan.Plan {
	ways := []int{plan.Ahead, plan.Behind, plan.FarAhead}
	if p.c.Replicas > 1 {
		ways = append(ways, plan.LoneAhead, plan.LoneBehind)
	}
	return plansOf(plan.Skewed, ways, 0)
}

// patient returns the setting for a run of p. If p sets the server's clock
// hours ahead, a program that looks at the age of an object acts hours late,
// and that is not a finding. The returned setting therefore lets the run wait
// at every rest until the state is right, for at most farSkew plus recovery.
func (x *explorer) patient(p plan.Plan, s setting) setting {
	if p.Clock() != plan.FarAhead || x.reference == nil || s.await != nil {
		return s
	}
	last := len(x.reference.states) - 1
	s.await = &await{rest: everyRest, limit: farSkew + recovery}
	s.await.isRight = func(r *run) bool {
		i := min(len(r.out.states), last)
		want, mask := x.wanted(i, last+1)
		return len(state.OfServer(r.sim, r.ignore, r.foreign).Diff(want, mask)) == 0 &&
			(i < last || r.c.Goal == nil || ask(r.c.Goal, r.world) == nil)
	}
	return s
}
