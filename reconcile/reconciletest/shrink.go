package reconciletest

import (
	"slices"

	"github.com/homeostat/homeostat/internal/apisim"
)

// How many runs a counter-example is made smaller for: a time would make the result one of chance.
const (
	mostTries  = 100
	mostPlaces = 15 // where a deviation is looked for in a smaller case
	references = 2  // runs without faults, of a smaller case
)

// example is a counter-example: what of the case, under which plan, with which outcome.
type example struct {
	x   *explorer
	p   plan
	out *outcome
}

// shrinker looks for a smaller example of the same finding.
type shrinker struct {
	best  example
	tries int
}

// smallest returns an example in which no deviation can be left out, none can be a weaker one, and neither an object
// nor a step of the workload can go, as far as the tries reach.
func smallest(e example) example {
	s := &shrinker{best: e}
	if e.out.finding.oracle == oracleRest {
		return e // each try would take all the steps
	}
	s.fewer()
	s.weaker()
	s.less()
	return s.best
}

func (s *shrinker) over() bool { return s.tries >= mostTries }

// try keeps the example if the same oracle finds something in it.
func (s *shrinker) try(x *explorer, p plan) bool {
	if s.over() {
		return false
	}
	s.tries++
	out := x.play(p, setting{seed: 1})
	if len(p) == 0 && out.finding == nil {
		x.unwatched(out)
	}
	if len(p) > 0 {
		x.judge(p, out)
	}
	if out.finding == nil || !same(out.finding.oracle, s.best.out.finding.oracle) {
		return false
	}
	s.best = example{x: x, p: p, out: out}
	return true
}

// same oracles: a smaller case has no goal, and the state tells instead.
func same(a, b string) bool {
	return a == b || a == oracleState && b == oracleGoal
}

// fewer leaves out deviations, until each that is left is needed.
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
	deliveryStrength = []apisim.Fault{apisim.Duplicated, hold, apisim.Dropped, apisim.Expired}
)

// weaker puts the weakest fault in place of each that does it.
func (s *shrinker) weaker() {
	for i, d := range s.best.p {
		order := map[byte][]apisim.Fault{atCall: callStrength, atDelivery: deliveryStrength}[d.at]
		if d.at == atCall && d.fault == hold {
			continue
		}
		for _, f := range order[:max(slices.Index(order, d.fault), 0)] {
			p := slices.Clone(s.best.p)
			p[i].fault = f
			if s.try(s.best.x, p) {
				break
			}
		}
	}
}

// less leaves out steps, objects and replicas, and looks for the same deviations in what is left: first all steps, or
// the later half of them, then one by one.
func (s *shrinker) less() {
	steps := upTo(len(s.best.x.whole.Workload))
	for i := range steps {
		steps[i]--
	}
	if len(steps) > 1 && !s.without(cut{steps: steps}) {
		s.without(cut{steps: steps[len(steps)/2:]})
	}
	for again := true; again && !s.over(); {
		again = false
		for _, c := range s.best.x.less.next(s.best.x.whole) {
			if again = s.without(c); again {
				break
			}
		}
	}
}

func (s *shrinker) without(c cut) bool {
	x := s.best.x.with(c)
	if len(s.best.p) == 0 {
		return s.try(x, nil)
	}
	s.tries += references
	if s.over() || !x.refer() {
		return false
	}
	return slices.ContainsFunc(x.alike(s.best.p), func(p plan) bool { return s.try(x, p) })
}

// with is an explorer of a smaller case.
func (x *explorer) with(c cut) *explorer {
	return &explorer{
		t: x.t, c: c.apply(x.whole), whole: x.whole, less: c, o: x.o, began: x.began, report: &Report{}, rules: ruleSet{},
		quiet: true,
	}
}

// alike are plans of the same kinds of deviations, at other places.
func (x *explorer) alike(p plan) []plan {
	singles := x.singles()
	all := []plan{p}
	for i, d := range p {
		var next []plan
		for _, single := range singles {
			at := single[0]
			if at.at != d.at || at.fault != d.fault || len(next) >= mostPlaces {
				continue
			}
			other := slices.Clone(p)
			other[i] = at
			next = append(next, other)
		}
		all = append(all, next...)
	}
	return all
}
