package reconciletest

import (
	"strings"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
)

// explainMisled adds an explanation to a finding of a program that has taken a
// 404 for the absence of an object, although the 404 is not about the object.
// Many programs do so after a deletion. The explanation is a text of its own.
// So an entry of Options.KnownFindings can name it without tolerating other
// findings about a 404.
func (o *outcome) explainMisled(p plan.Plan) {
	d, misleads := p.Misleads()
	if !misleads || o.finding == nil || d.Index > len(o.calls) {
		return
	}
	taken := "absence"
	if o.calls[d.Index-1].Verb == "delete" {
		taken = "deletion"
	}
	text := "a 404 that is not about the object is taken for its " + taken + ": "
	if !strings.HasPrefix(o.finding.Text, text) {
		o.finding.Text, o.finding.Reason = text+o.finding.Text, report.Misled
	}
}
