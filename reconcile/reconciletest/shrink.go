package reconciletest

import (
	"slices"
	"strconv"
	"strings"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/backend"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
)

// These limit how many runs are made to find a smaller counter-example. A time
// limit would make the result depend on chance.
const (
	mostTries  = 100
	mostPlaces = 15 // at how many other places each deviation is tried in a smaller case
	references = 2  // how many runs without faults a smaller case costs
)

// example is a counter-example. It consists of a part of the case, a plan and
// an outcome. Its token identifies all three. In the token, the hash of the
// trace stands for the outcome.
type example struct {
	x   *explorer
	p   plan.Plan
	out *outcome
}

// shrinker looks for a smaller example of the same finding.
//
// It limits its runs and not its time. So the same failure always leads to the
// same example.
type shrinker struct {
	best  example
	tries int
}

// smallest makes an example smaller, as far as the number of tries allows. In
// the result, every deviation, object and step is needed for the failure, and
// no weaker fault leads to it. An example of the oracle Rest or Vain stays as
// it is.
func smallest(e example) example {
	s := &shrinker{best: e}
	switch e.out.finding.Oracle {
	case report.Rest: // each try would use up Options.Steps
		return e
	case report.Vain: // the finding is about the whole workload
		return e
	}
	s.dropDeviations()
	s.weakenFaults()
	s.shrinkCase()
	return s.best
}

// isOver reports whether all tries are used up.
func (s *shrinker) isOver() bool { return s.tries >= mostTries }

// try plays a smaller example and keeps it if it has a finding of the same
// oracle. A finding of another oracle may be another bug.
func (s *shrinker) try(x *explorer, p plan.Plan) bool {
	if s.isOver() {
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
	if out.finding == nil || !sameOracle(out.finding.Oracle, s.best.out.finding.Oracle) {
		return false
	}
	s.best = example{x: x, p: p, out: out}
	return true
}

// sameOracle reports whether two findings break the same rule. A smaller case
// has no Goal, so a finding of the oracle State counts as one of the oracle
// Goal.
func sameOracle(a, b string) bool {
	return a == b || a == report.State && b == report.Goal
}

// dropDeviations leaves out deviations, until each remaining one is needed for
// the failure.
func (s *shrinker) dropDeviations() {
	for i := 0; i < len(s.best.p) && len(s.best.p) > 1; {
		if shorter := slices.Delete(slices.Clone(s.best.p), i, i+1); s.try(s.best.x, shorter) {
			i = 0
			continue
		}
		i++
	}
}

// weakenFaults replaces each deviation with the weakest one that still fails,
// because a conflict is easier to understand than a crash.
func (s *shrinker) weakenFaults() {
	for i, d := range s.best.p {
		for _, weaker := range d.Weaker() {
			if !s.best.out.possible(weaker) {
				continue
			}
			p := slices.Clone(s.best.p)
			p[i] = weaker
			if s.try(s.best.x, p) {
				break
			}
		}
	}
}

// shrinkCase leaves out steps, objects and replicas as long as the smaller case
// still fails. It first tries to leave out all steps, or the later half of
// them, and then leaves out parts one by one.
func (s *shrinker) shrinkCase() {
	steps := upTo(len(s.best.x.whole.Workload))
	for i := range steps {
		steps[i]--
	}
	if len(steps) > 1 && !s.tryWithout(plan.Cut{Steps: steps}) {
		s.tryWithout(plan.Cut{Steps: steps[len(steps)/2:]})
	}
	for shrunk := true; shrunk && !s.isOver(); {
		shrunk = false
		for _, c := range nextCuts(s.best.x.omitted, s.best.x.whole) {
			if shrunk = s.tryWithout(c); shrunk {
				break
			}
		}
	}
}

// tryWithout tries the case without the parts of c. It first tries the same
// plan, and then the same kinds of deviations at other places.
func (s *shrinker) tryWithout(c plan.Cut) bool {
	x := s.best.x.cut(c)
	if len(s.best.p) == 0 {
		return s.try(x, nil)
	}
	s.tries += references
	if s.isOver() || x.refer() != nil {
		return false
	}
	return slices.ContainsFunc(x.alike(s.best.p), func(p plan.Plan) bool { return s.try(x, p) })
}

// cut returns an explorer for the case without the parts of c.
func (x *explorer) cut(c plan.Cut) *explorer {
	smaller := x.forCase(applyCut(c, x.whole))
	smaller.omitted = c
	return smaller
}

// alike returns p, and plans with the same kinds of deviations at other places,
// because calls and events have different numbers in a smaller case.
func (x *explorer) alike(p plan.Plan) []plan.Plan {
	singles := x.planner().singles()
	plans := []plan.Plan{p}
	for i, d := range p {
		var next []plan.Plan
		for _, single := range singles {
			if !single[0].Resembles(d) || len(next) >= mostPlaces {
				continue
			}
			changed := slices.Clone(p)
			changed[i] = single[0]
			next = append(next, changed)
		}
		plans = append(plans, next...)
	}
	return plans
}

// omitted names the parts that a cut leaves out of a case. It returns "" if the
// cut leaves out no part.
func omitted(c plan.Cut, whole *Case) string {
	var parts []string
	for _, i := range c.Objects {
		if i < len(whole.Objects) {
			parts = append(parts, backend.Title(whole.Objects[i]))
		}
	}
	for _, i := range c.Steps {
		if i < len(whole.Workload) {
			parts = append(parts, strconv.Quote(whole.Workload[i].Name))
		}
	}
	if c.Single {
		parts = append(parts, "all replicas but one")
	}
	return strings.Join(parts, ", ")
}

// applyCut returns the case without the omitted parts. If parts are omitted, it
// also omits Goal, because Goal is about the whole workload.
func applyCut(c plan.Cut, whole *Case) *Case {
	if c.IsEmpty() {
		return whole
	}
	smaller := *whole
	smaller.Objects, smaller.Workload = remove(whole.Objects, c.Objects), remove(whole.Workload, c.Steps)
	smaller.Goal = nil
	if c.Single {
		smaller.Replicas = 1
	}
	return &smaller
}

// remove returns the elements whose index is not among indices.
func remove[T any](list []T, indices []int) []T {
	var kept []T
	for i, v := range list {
		if !slices.Contains(indices, i) {
			kept = append(kept, v)
		}
	}
	return kept
}

// nextCuts returns cuts that leave out one more part than c. First are the cuts
// without one more step, beginning with the last step. Then follow the cuts
// without one more object, in the same order, and finally the cut with a single
// replica.
func nextCuts(c plan.Cut, whole *Case) []plan.Cut {
	var cuts []plan.Cut
	for i := range slices.Backward(whole.Workload) {
		if !slices.Contains(c.Steps, i) {
			larger := c
			larger.Steps = append(slices.Clone(c.Steps), i)
			cuts = append(cuts, larger)
		}
	}
	for i := range slices.Backward(whole.Objects) {
		if !slices.Contains(c.Objects, i) {
			larger := c
			larger.Objects = append(slices.Clone(c.Objects), i)
			cuts = append(cuts, larger)
		}
	}
	if whole.Replicas > 1 && !c.Single {
		larger := c
		larger.Single = true
		cuts = append(cuts, larger)
	}
	return cuts
}
