package reconciletest

import (
	"strings"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
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
