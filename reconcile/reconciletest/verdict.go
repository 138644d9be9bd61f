package reconciletest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// assess judges a run, but for known findings: they neither hide others, nor count.
func (x *explorer) assess(p plan.Plan, out *outcome) {
	before := x.report.Known
	if x.forgive(p, out) && !out.whole {
		return // there is no more of it
	}
	x.judge(p, out)
	if x.forgive(p, out) {
		x.report.Known = before + 1 // one run, whatever is known of it
	}
}

// judge asks the oracles that compare a run with the reference: state first, which explains why a restart wrote again,
// then amplify, and counts if nothing but what the program sees was delayed or could not be read. The others were asked
// while it ran.
func (x *explorer) judge(p plan.Plan, out *outcome) {
	if out.void || out.finding != nil && (out.finding.Oracle != report.Tail || !out.whole) {
		return
	}
	at, differs := state.Compare(out.states, x.reference.states, x.masked)
	if differs != "" && x.widen() {
		at, differs = state.Compare(out.states, x.reference.states, x.masked)
	}
	if differs != "" {
		out.finding = &report.Finding{Oracle: report.State, UpTo: out.restedAt[at], Text: differs}
		return
	}
	if out.finding != nil {
		return
	}
	if most := amplified*x.reference.writes + amplifiedBy; out.writes > most && !slow(p) {
		out.finding = &report.Finding{Oracle: report.Amplify, Text: fmt.Sprintf(
			"it makes %d writes, and without faults %d", out.writes, x.reference.writes)}
		return
	}
	if !onlySight(p, out) {
		return
	}
	for _, what := range slices.Sorted(maps.Keys(out.counts)) {
		if n, want := out.counts[what], x.reference.counts[what]; n > want && !x.reference.passing(what) {
			out.finding = &report.Finding{
				Oracle: report.Counts,
				Text:   fmt.Sprintf("%s: %d, and without the %s %d", what, n, sight(p), want),
			}
			return
		}
	}
}

// passing reports whether a count is of deletions of objects that the program creates and deletes again before it
// rests, such as a lock: it may do so once for each attempt. Objects that another client has written to meanwhile do
// not count: their work would be done twice.
func (o *outcome) passing(count string) bool {
	what, of := strings.CutPrefix(count, deletes)
	return of && o.counts[atOnce+what] > 0 && !o.kept[what]
}

// A run with faults may have amplified times the writes of the run without, and amplifiedBy more.
const amplified, amplifiedBy = 5, 30

// slow reports whether the plan delays something. Then two sides may undo each other's work for as long.
func slow(p plan.Plan) bool {
	return slices.ContainsFunc(p, func(d plan.Deviation) bool {
		return (d.At == plan.AtDelivery || d.At == plan.AtCall) && d.Fault == plan.Hold ||
			d.At == plan.Restarted || d.At == plan.Shuffled || d.At == plan.Lagging
	})
}

// onlySight reports whether the plan does nothing but delay what the program sees, or let a read of it fail.
func onlySight(p plan.Plan, out *outcome) bool {
	for _, d := range p {
		if d.At != plan.AtDelivery && (d.At != plan.AtCall || d.Fault != plan.Hold && !out.reads(d.Index)) {
			return false
		}
	}
	return true
}

// sight names what a plan of these does.
func sight(p plan.Plan) string {
	if slices.ContainsFunc(p, func(d plan.Deviation) bool { return d.At == plan.AtCall && d.Fault != plan.Hold }) {
		return "error"
	}
	return "delay"
}

// forgive takes back a finding that is known, and reports whether it was. One that has cut the run without faults short
// is not: the others are compared with that run.
func (x *explorer) forgive(p plan.Plan, out *outcome) bool {
	if out.finding == nil || len(p) == 0 && !out.whole {
		return false
	}
	text := words(p) + out.finding.Text
	known := false
	for _, part := range x.o.Known {
		if strings.Contains(text, part) {
			known, x.used[part] = true, true
		}
	}
	if known {
		out.finding = nil
		x.report.Known++
	}
	return known
}

// words says what a plan does, before what was found.
func words(p plan.Plan) string {
	if len(p) == 0 {
		return "without any fault: "
	}
	return p.Words() + ": "
}

// mask adds the differences of another run without faults from the first one.
func (x *explorer) mask(other *outcome) {
	for i := range min(len(x.reference.states), len(other.states)) {
		if i == len(x.masked) {
			x.masked = append(x.masked, map[string]bool{})
		}
		maps.Copy(x.masked[i], x.reference.states[i].State().Mask(other.states[i].State()))
	}
}

// luck is how many more runs without faults tell what differs by chance.
const luck = 10

// widen finds out what else differs by chance, before the program is blamed for it. It returns false if it has done so
// already, or if nothing is left to chance.
func (x *explorer) widen() bool {
	if x.report.Chance == "" || x.widened {
		return false
	}
	x.widened = true
	for range luck {
		x.mask(x.play(nil, setting{seed: 1}))
	}
	return true
}
