package reconciletest

import (
	"strings"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
)

// explainMisled says in the text of a finding that the program has taken a 404
// for the absence of an object, although the 404 is not about the object. Many
// programs do so after a deletion. A text of its own lets them name that in
// Options.KnownFindings without other findings about a 404.
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
