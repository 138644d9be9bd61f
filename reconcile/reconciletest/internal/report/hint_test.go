package report_test

import (
	"testing"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
)

// The hints of internal/proof/zoo are of whole programs. These are of findings that its programs do not have.
func TestAHintIsOfWhatWasDone(t *testing.T) {
	const (
		second  = "+ secrets d/a-*2 = there"
		field   = "- secrets d/a: data.x = 1"
		forgets = "hint: it decides by its memory, and a restart forgets that"
		synced  = "hint: it acts before all of its caches are filled"
		due     = "If the write was due before, nothing led to it: watch what it follows from"
		made    = "hint: a second try, or an old cache, gives a second object when the server makes up the name"
	)
	for name, row := range map[string]struct{ plan, oracle, text, want string }{
		"a plain restart, and a second object":        {"t1.0", report.State, second, forgets},
		"a plain restart, and no goal":                {"t2.0", report.Goal, second, forgets},
		"a plain restart, and another field":          {"t1.0", report.State, field, forgets},
		"caches of the past, and a second object":     {"t1.3", report.State, second, made},
		"a restart and a slow watch":                  {"t1.0+d2", report.State, second, made},
		"a late list, and a second object":            {"b1.1", report.State, second, synced},
		"a late list, and another field":              {"b1.1", report.State, field, synced},
		"a late list, and a write at rest":            {"b1.1", report.Tail, "a restart wrote again: create secrets d/a", synced},
		"a crash, and a second object":                {"c3.after", report.State, second, made},
		"a plain restart that deletes what is new":    {"t1.0", report.Tail, "a restart wrote again: delete secrets d/a", forgets},
		"a restart that is the first to see a change": {"", report.Tail, "a restart wrote again: update secrets d/a", due},
		"a plain restart that breaks the invariant":   {"t1.0", report.Always, "two at once", forgets},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			p, err := plan.Parse(row.plan)
			g.Expect(err).NotTo(gomega.HaveOccurred())
			words := (&report.Finding{Oracle: row.oracle, Text: row.text}).Words("", nil, p)
			g.Expect(words).To(gomega.ContainSubstring(row.want))
		})
	}
}
