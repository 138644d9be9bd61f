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

// assess judges a run. It withdraws known findings. They then neither fail the
// run nor hide other findings.
func (x *explorer) assess(p plan.Plan, out *outcome) {
	knownBefore := x.report.KnownFindings
	out.explainMisled(p)
	out.explainList(p)
	if x.withdrawKnown(p, out) && !out.whole {
		return // the finding has ended the run early, so there is no state to compare
	}
	x.judge(p, out)
	out.explainMisled(p)
	out.explainList(p)
	if x.withdrawKnown(p, out) {
		x.report.KnownFindings = knownBefore + 1 // the run counts once, even if it has several known findings
	}
}

// judge runs the oracles that compare a run with the run without faults. The
// other oracles have been checked during the run. State is first, because a
// wrong state explains why a restart has written again. Then follow Amplify and
// Vain and, if onlySight is true for the plan, Counts.
func (x *explorer) judge(p plan.Plan, out *outcome) {
	if _, lasts := p.Lasting(); lasts {
		x.checkOthers(p, out)
		return
	}
	if out.void || p.Changes() || out.finding != nil && (out.finding.Oracle != report.Tail || !out.whole) {
		return
	}
	i, differs := state.Compare(out.states, x.reference.states, x.masked)
	if differs != nil && x.widen() {
		i, differs = state.Compare(out.states, x.reference.states, x.masked)
	}
	if differs != nil {
		out.finding = &report.Finding{
			Oracle: report.State, Reason: out.reason(p, x.usual, differs.Seen), UpTo: out.restedAt[i], Text: differs.Text,
		}
		return
	}
	if out.finding != nil {
		return
	}
	if limit := amplified*x.reference.writes + amplifiedBy; out.writes > limit && !delaysActions(p) {
		out.finding = &report.Finding{Oracle: report.Amplify, Reason: report.WakesItself, Text: fmt.Sprintf(
			"it makes %d writes, and without faults %d", out.writes, x.reference.writes)}
		return
	}
	if x.checkRefusals(out); out.finding != nil || !onlySight(p, out) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(out.counts)) {
		if n, want := out.counts[name], x.reference.counts[name]; n > want && !x.reference.isTemporary(name) {
			reason, disturbed := sight(p)
			out.finding = &report.Finding{
				Oracle: report.Counts, Reason: reason,
				Text: fmt.Sprintf("%s: %d, and without the %s %d", name, n, disturbed, want),
			}
			return
		}
	}
}

// checkRefusals records a finding for a write that the server still refuses at
// the end, but does not refuse without faults.
func (x *explorer) checkRefusals(out *outcome) {
	usual := func(f *report.Finding) bool {
		return slices.ContainsFunc(x.endures, func(r *refusal) bool { return strings.Contains(f.Text, r.write) })
	}
	if refusals := slices.DeleteFunc(out.refusals("long after the fault"), usual); len(refusals) > 0 {
		out.finding = refusals[0]
	}
}

// isTemporary reports whether a count is about deletions of temporary objects,
// such as locks. The program creates and deletes them before it rests, and may
// do so once for each attempt. An object that another client has written to is
// not temporary, because creating it again would repeat work.
func (o *outcome) isTemporary(count string) bool {
	name, ok := strings.CutPrefix(count, deletes)
	return ok && o.counts[atOnce+name] > 0 && !o.permanent[name]
}

// A run with faults may make amplified times as many writes as the run without
// faults, plus amplifiedBy. For example, 150 writes are the limit if the run
// without faults makes 24.
const amplified, amplifiedBy = 5, 30

// delaysActions reports whether the plan can delay actions: by a slow watch or
// call, an outage, a late actor, a restart or a random order. During the delay,
// two writers may undo each other's work again and again.
func delaysActions(p plan.Plan) bool {
	return slices.ContainsFunc(p, func(d plan.Deviation) bool {
		return (d.Kind == plan.AtDelivery || d.Kind == plan.AtCall) && d.Fault == plan.Hold ||
			d.Kind == plan.Restarted || d.Kind == plan.Shuffled || d.Kind == plan.Lagging || d.Kind == plan.Outage
	})
}

// onlySight reports whether the plan only disturbs watches, delays calls, or
// makes reads fail.
func onlySight(p plan.Plan, out *outcome) bool {
	for _, d := range p {
		if d.Kind != plan.AtDelivery && (d.Kind != plan.AtCall || d.Fault != plan.Hold && !out.reads(d.Index)) {
			return false
		}
	}
	return true
}

// sight returns the reason for a finding in a run of p, a plan for which
// onlySight is true. words is "error" or "delay", for the text of the finding.
func sight(p plan.Plan) (reason report.Reason, words string) {
	if slices.ContainsFunc(p, func(d plan.Deviation) bool { return d.Kind == plan.AtCall && d.Fault != plan.Hold }) {
		return report.FailedRead, "error"
	}
	return report.StaleCache, "delay"
}

// withdrawKnown withdraws a known finding, and reports whether it has. It keeps
// a finding that has ended the run without faults early, because all other runs
// are compared with that run.
func (x *explorer) withdrawKnown(p plan.Plan, out *outcome) bool {
	if out.finding == nil || len(p) == 0 && !out.whole {
		return false
	}
	text := words(p) + out.finding.Text
	found := false
	for _, part := range x.o.KnownFindings {
		if strings.Contains(text, part) {
			found, x.used[part] = true, true
		}
	}
	if found {
		out.finding = nil
		x.report.KnownFindings++
	}
	return found
}

// words returns a description of a plan, as a prefix of the finding's text.
func words(p plan.Plan) string {
	if len(p) == 0 {
		return "without any fault: "
	}
	return p.Words() + ": "
}

// mask adds to masked the differences between the first run without faults and
// a later run without faults.
func (x *explorer) mask(other *outcome) {
	for i := range min(len(x.reference.states), len(other.states)) {
		if i == len(x.masked) {
			x.masked = append(x.masked, map[string]bool{})
		}
		maps.Copy(x.masked[i], x.reference.states[i].State().Mask(other.states[i].State()))
	}
}

// extraRuns is the number of additional runs without faults in which widen
// looks for differences by chance.
const extraRuns = 10

// widen looks for further differences by chance before the program is blamed
// for a difference. It returns false if it has already done so, or if the
// program does not decide by chance.
func (x *explorer) widen() bool {
	if x.report.Chance == "" || x.widened {
		return false
	}
	x.widened = true
	for range extraRuns {
		x.mask(x.play(nil, setting{seed: 1}))
	}
	return true
}
