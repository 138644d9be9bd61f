package reconciletest

import (
	"slices"
	"strconv"
	"strings"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/backend"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
)

// How many runs a counter-example is made smaller for: a time would make the
// result one of chance.
const (
	mostTries  = 100
	mostPlaces = 15 // where a deviation is looked for in a smaller case
	references = 2  // runs without faults, of a smaller case
)

// example is a counter-example: a part of the case, a plan and an outcome. Its
// token names all three: the hash of the trace stands for the outcome.
type example struct {
	x   *explorer
	p   plan.Plan
	out *outcome
}

// shrinker looks for a smaller example of the same finding.
//
// It counts its runs, not its time: the same failure is always made smaller in
// the same way.
type shrinker struct {
	best  example
	tries int
}

// smallest returns an example in which no deviation, object or step can be left
// out and no deviation can be weakened, as far as the number of tries allows.
func smallest(e example) example {
	s := &shrinker{best: e}
	switch e.out.finding.Oracle {
	case report.Rest: // each try would take all the steps
		return e
	case report.Vain: // it is of the whole workload
		return e
	}
	s.fewer()
	s.weaker()
	s.less()
	return s.best
}

// over reports whether the tries are used up.
func (s *shrinker) over() bool { return s.tries >= mostTries }

// try keeps the example if the same oracle finds something in it: a finding of
// another oracle may be another bug.
func (s *shrinker) try(x *explorer, p plan.Plan) bool {
	if s.over() {
		return false
	}
	s.tries++
	out := x.play(p, setting{seed: 1})
	if len(p) == 0 && out.finding == nil {
		out.unwatched(x.c.Unwatched)
	}
	if len(p) > 0 {
		x.assess(p, out)
	} else {
		x.withdrawKnown(p, out)
	}
	if out.finding == nil || !same(out.finding.Oracle, s.best.out.finding.Oracle) {
		return false
	}
	s.best = example{x: x, p: p, out: out}
	return true
}

// same oracles: a smaller case has no goal, and the state tells instead.
func same(a, b string) bool {
	return a == b || a == report.State && b == report.Goal
}

// fewer leaves out deviations, until each that is left is needed for the failure.
func (s *shrinker) fewer() {
	for i := 0; i < len(s.best.p) && len(s.best.p) > 1; {
		if without := slices.Delete(slices.Clone(s.best.p), i, i+1); s.try(s.best.x, without) {
			i = 0
			continue
		}
		i++
	}
}

// The faults from the weakest to the strongest.
var (
	callStrength = []apisim.Fault{
		apisim.Conflict, apisim.Internal, apisim.Throttled, apisim.Expired, apisim.LostReply, apisim.Late,
		apisim.CrashBefore, apisim.CrashAfter,
	}
	deliveryStrength = []apisim.Fault{apisim.Duplicated, plan.Hold, apisim.Dropped, apisim.Expired}
)

// weaker replaces each fault by the weakest one that still fails: a conflict is
// easier to understand than a crash. No server answers a read with one.
func (s *shrinker) weaker() {
	for i, d := range s.best.p {
		order := map[byte][]apisim.Fault{plan.AtCall: callStrength, plan.AtDelivery: deliveryStrength}[d.At]
		if d.At == plan.AtCall && d.Fault == plan.Hold {
			continue
		}
		for _, f := range order[:max(slices.Index(order, d.Fault), 0)] {
			if f == apisim.Conflict && s.best.out.reads(d.Index) {
				continue
			}
			p := slices.Clone(s.best.p)
			p[i].Fault = f
			if s.try(s.best.x, p) {
				break
			}
		}
	}
}

// less leaves out steps, objects and replicas, and looks for the same
// deviations in the rest: first all steps, or the later half of them, then one
// by one.
func (s *shrinker) less() {
	steps := upTo(len(s.best.x.whole.Workload))
	for i := range steps {
		steps[i]--
	}
	if len(steps) > 1 && !s.without(plan.Cut{Steps: steps}) {
		s.without(plan.Cut{Steps: steps[len(steps)/2:]})
	}
	for again := true; again && !s.over(); {
		again = false
		for _, c := range nextCuts(s.best.x.less, s.best.x.whole) {
			if again = s.without(c); again {
				break
			}
		}
	}
}

// without tries the case without c: first the same plan, then the same kinds of
// deviations at other places.
func (s *shrinker) without(c plan.Cut) bool {
	x := s.best.x.with(c)
	if len(s.best.p) == 0 {
		return s.try(x, nil)
	}
	s.tries += references
	if s.over() || x.refer() != nil {
		return false
	}
	return slices.ContainsFunc(x.alike(s.best.p), func(p plan.Plan) bool { return s.try(x, p) })
}

// with is an explorer of a smaller case.
func (x *explorer) with(c plan.Cut) *explorer {
	less := x.of(applyCut(c, x.whole))
	less.less = c
	return less
}

// alike are plans of the same kinds of deviations, at other places: with less
// in the world, calls and events have other numbers.
func (x *explorer) alike(p plan.Plan) []plan.Plan {
	singles := x.planner().singles()
	all := []plan.Plan{p}
	for i, d := range p {
		var next []plan.Plan
		for _, single := range singles {
			if !single[0].Like(d) || len(next) >= mostPlaces {
				continue
			}
			other := slices.Clone(p)
			other[i] = single[0]
			next = append(next, other)
		}
		all = append(all, next...)
	}
	return all
}

// omitted names the parts that a cut leaves out of a case; "" if there are none.
func omitted(c plan.Cut, of *Case) string {
	var parts []string
	for _, i := range c.Objects {
		if i < len(of.Objects) {
			parts = append(parts, backend.Title(of.Objects[i]))
		}
	}
	for _, i := range c.Steps {
		if i < len(of.Workload) {
			parts = append(parts, strconv.Quote(of.Workload[i].Name))
		}
	}
	if c.Single {
		parts = append(parts, "all replicas but one")
	}
	return strings.Join(parts, ", ")
}

// applyCut returns the case without the omitted parts, and then also without
// its goal, which is about the whole workload.
func applyCut(c plan.Cut, of *Case) *Case {
	if c.None() {
		return of
	}
	less := *of
	less.Objects, less.Workload, less.Goal = without(of.Objects, c.Objects), without(of.Workload, c.Steps), nil
	if c.Single {
		less.Replicas = 1
	}
	return &less
}

// without returns the elements whose index is not among indices.
func without[T any](all []T, indices []int) []T {
	var left []T
	for i, v := range all {
		if !slices.Contains(indices, i) {
			left = append(left, v)
		}
	}
	return left
}

// nextCuts leave out one thing more than c: the last steps first, then the last
// objects, then all replicas but one.
func nextCuts(c plan.Cut, of *Case) []plan.Cut {
	var all []plan.Cut
	for i := range slices.Backward(of.Workload) {
		if !slices.Contains(c.Steps, i) {
			more := c
			more.Steps = append(slices.Clone(c.Steps), i)
			all = append(all, more)
		}
	}
	for i := range slices.Backward(of.Objects) {
		if !slices.Contains(c.Objects, i) {
			more := c
			more.Objects = append(slices.Clone(c.Objects), i)
			all = append(all, more)
		}
	}
	if of.Replicas > 1 && !c.Single {
		more := c
		more.Single = true
		all = append(all, more)
	}
	return all
}
