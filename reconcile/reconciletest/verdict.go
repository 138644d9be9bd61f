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

// assess judges a run, except for known findings: they neither hide others, nor
// count.
func (x *explorer) assess(p plan.Plan, out *outcome) {
	before := x.report.KnownFindings
	if x.withdrawKnown(p, out) && !out.whole {
		return // there is no more of it
	}
	x.judge(p, out)
	if x.withdrawKnown(p, out) {
		x.report.KnownFindings = before + 1 // one run, whatever is known of it
	}
}

// judge runs the oracles that compare a run with the reference: state first,
// which explains why a restart wrote again, then amplify, and counts if only
// the program's view was delayed or a read failed. The others ran during the
// run.
func (x *explorer) judge(p plan.Plan, out *outcome) {
	if _, lasts := p.Lasting(); lasts && out.finding == nil && !out.void {
		x.checkOthers(out)
		return
	} else if lasts {
		return
	}
	if out.void || p.Changes() || out.finding != nil && (out.finding.Oracle != report.Tail || !out.whole) {
		return
	}
	at, differs := state.Compare(out.states, x.reference.states, x.masked)
	if differs != nil && x.widen() {
		at, differs = state.Compare(out.states, x.reference.states, x.masked)
	}
	if differs != nil {
		out.finding = &report.Finding{
			Oracle: report.State, Reason: out.why(p, x.usual, differs.Seen), UpTo: out.restedAt[at], Text: differs.Text,
		}
		return
	}
	if out.finding != nil {
		return
	}
	if most := amplified*x.reference.writes + amplifiedBy; out.writes > most && !slow(p) {
		out.finding = &report.Finding{Oracle: report.Amplify, Reason: report.WakesItself, Text: fmt.Sprintf(
			"it makes %d writes, and without faults %d", out.writes, x.reference.writes)}
		return
	}
	if !onlySight(p, out) {
		return
	}
	for _, what := range slices.Sorted(maps.Keys(out.counts)) {
		if n, want := out.counts[what], x.reference.counts[what]; n > want && !x.reference.passing(what) {
			why, disturbed := sight(p)
			out.finding = &report.Finding{
				Oracle: report.Counts, Reason: why,
				Text: fmt.Sprintf("%s: %d, and without the %s %d", what, n, disturbed, want),
			}
			return
		}
	}
}

// passing reports whether a count is about deletions of temporary objects, such
// as locks, which the program creates and deletes before it rests: it may do so
// once for each attempt. Objects that another client has written to meanwhile
// do not count: their work would be done twice.
func (o *outcome) passing(count string) bool {
	what, of := strings.CutPrefix(count, deletes)
	return of && o.counts[atOnce+what] > 0 && !o.kept[what]
}

// A run with faults may have amplified times the writes of the run without, and
// amplifiedBy more.
const amplified, amplifiedBy = 5, 30

// slow reports whether the plan delays something. Then two sides may undo each
// other's work for that long.
func slow(p plan.Plan) bool {
	return slices.ContainsFunc(p, func(d plan.Deviation) bool {
		return (d.At == plan.AtDelivery || d.At == plan.AtCall) && d.Fault == plan.Hold ||
			d.At == plan.Restarted || d.At == plan.Shuffled || d.At == plan.Lagging
	})
}

// onlySight reports whether the plan only delays the program's view, or lets a
// read fail.
func onlySight(p plan.Plan, out *outcome) bool {
	for _, d := range p {
		if d.At != plan.AtDelivery && (d.At != plan.AtCall || d.Fault != plan.Hold && !out.reads(d.Index)) {
			return false
		}
	}
	return true
}

// sight describes such a plan, and what it shows.
func sight(p plan.Plan) (why report.Reason, words string) {
	if slices.ContainsFunc(p, func(d plan.Deviation) bool { return d.At == plan.AtCall && d.Fault != plan.Hold }) {
		return report.FailedRead, "error"
	}
	return report.StaleCache, "delay"
}

// withdrawKnown withdraws a known finding, and reports whether it has. A
// finding that cut the run without faults short is kept: the other runs are
// compared with that run.
func (x *explorer) withdrawKnown(p plan.Plan, out *outcome) bool {
	if out.finding == nil || len(p) == 0 && !out.whole {
		return false
	}
	text := words(p) + out.finding.Text
	known := false
	for _, part := range x.o.KnownFindings {
		if strings.Contains(text, part) {
			known, x.used[part] = true, true
		}
	}
	if known {
		out.finding = nil
		x.report.KnownFindings++
	}
	return known
}

// words describes a plan, as a prefix of the finding.
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

// luck is how many more runs without faults look for chance differences.
const luck = 10

// widen looks for further chance differences before the program is blamed. It
// returns false if it has done so already, or if nothing depends on chance.
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
