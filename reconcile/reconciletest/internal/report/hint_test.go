package report_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
)

func TestAReasonFollowsFromThePlanAndWhatWasSeen(t *testing.T) {
	second := report.Seen{End: true, MadeUp: true}
	field := report.Seen{End: true, Fields: true}
	lost := report.Seen{End: true, Lost: true}
	goal := report.Seen{End: true}
	for name, row := range map[string]struct {
		plan string
		saw  report.Seen
		want report.Reason
	}{
		"nothing":                                   {"", report.Seen{}, report.NoReason},
		"no goal without a fault":                   {"", goal, report.NoReason},
		"a plain restart, and a second object":      {"t1.0", second, report.Forgotten},
		"a plain restart, and no goal":              {"t2.0", goal, report.Forgotten},
		"a plain restart, and another field":        {"t1.0", field, report.Forgotten},
		"a plain restart that breaks the invariant": {"t1.0", report.Seen{}, report.Forgotten},
		"caches of the past, and a second object":   {"t1.3", second, report.SecondName},
		"caches of the past, and another field":     {"t1.3", field, report.Overwrites},
		"caches of the past, and an object less":    {"t1.3", lost, report.WrongObject},
		"caches of the past, and an object more":    {"t1.3", goal, report.PastCache},
		"a restart and a slow watch":                {"t1.0+d2", second, report.SecondName},
		"a late list, and a second object":          {"b1.1", second, report.Unsynced},
		"a late list, and another field":            {"b1.1", field, report.Unsynced},
		"a crash, and a second object":              {"c3.after", second, report.SecondName},
		"a crash":                                   {"c3.after", lost, report.HalfDone},
		"a slow watch, and more writes":             {"d3", goal, report.StaleCache},
		"a slow watch, and fewer writes":            {"d3", report.Seen{End: true, FewerWrites: true}, report.LateEventIgnored},
		"an edit without an event":                  {"e1", report.Seen{End: true, Missed: true}, report.NotSeen},
		"an edit without a reconcile":               {"e1", report.Seen{End: true, Unmoved: true}, report.NotMapped},
		"an edit":                                   {"e1", field, report.NotCorrected},
		"a deletion while the watch ends":           {"x1+d9.drop", report.Seen{End: true, Missed: true}, report.NotRestored},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			p, err := plan.Parse(row.plan)
			g.Expect(err).NotTo(gomega.HaveOccurred())
			g.Expect(report.ReasonFor(p, row.saw)).To(gomega.Equal(row.want))
		})
	}
}

func TestAReasonFollowsFromWhatARestartWrites(t *testing.T) {
	for name, row := range map[string]struct {
		plan, verb string
		want       report.Reason
	}{
		"a late list, and a create":                   {"b1.1", "create", report.Unsynced},
		"a plain restart that deletes what is new":    {"t1.0", "delete", report.Forgotten},
		"a restart that is the first to see a change": {"", "update", report.Overdue},
		"a restart after a fault":                     {"c1.500", "patch", report.WritesAgain},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			p, err := plan.Parse(row.plan)
			g.Expect(err).NotTo(gomega.HaveOccurred())
			g.Expect(report.ReasonAfterRestart(p, row.verb)).To(gomega.Equal(row.want))
		})
	}
}

func TestEachReasonHasAHint(t *testing.T) {
	g := gomega.NewWithT(t)
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, parser.SkipObjectResolution)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	all := map[report.Reason]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if value, ok := n.(*ast.ValueSpec); ok && len(value.Values) == 1 {
			if literal, ok := value.Values[0].(*ast.BasicLit); ok {
				text, err := strconv.Unquote(literal.Value)
				g.Expect(err).NotTo(gomega.HaveOccurred())
				g.Expect(all).NotTo(gomega.HaveKey(report.Reason(text)), "there are two")
				all[report.Reason(text)] = true
			}
		}
		return true
	})
	g.Expect(len(all)).To(gomega.BeNumerically(">", 40))
	for reason := range all {
		if reason != report.NoReason {
			g.Expect(reason.Hint()).NotTo(gomega.BeEmpty(), string(reason))
		}
	}
}
