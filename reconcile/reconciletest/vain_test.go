package reconciletest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/internal/proof/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// failing never gets anything done.
func failing(context.Context, *breeding.Breeder, *corev1.ConfigMap) error {
	return errors.New("no such luck")
}

// A controller that does nothing, and a case without a Goal, show nothing.
func TestAProgramThatWritesNothingIsAFinding(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(failing)
	c.Goal = nil
	r := reconciletest.Search(t, c, nil)
	g.Expect(r.Oracle).To(gomega.Equal("vain"))
	g.Expect(r.Failure).To(gomega.ContainSubstring("writes nothing"))
	g.Expect(r.Failure).To(gomega.ContainSubstring("no such luck"), "the errors of reconciles stand in the trace")

	c.Goal = func(*reconciletest.World) error { return nil }
	r = reconciletest.Search(t, c, &reconciletest.Options{Seeds: 1})
	g.Expect(r.Failure).To(gomega.BeEmpty())
	g.Expect(r.String()).To(gomega.ContainSubstring("no such luck"))
}

// What a budget leaves out is said.
func TestTheShareIsReported(t *testing.T) {
	g := gomega.NewWithT(t)
	r := reconciletest.Search(t, breeding.Case(breeding.Right), &reconciletest.Options{Budget: time.Nanosecond})
	g.Expect(r.Tried).To(gomega.BeZero())
	g.Expect(r.Planned).To(gomega.BeNumerically(">", 80))
	g.Expect(r.Covered()).To(gomega.BeFalse())
	g.Expect(r.String()).To(gomega.MatchRegexp(`0 of \d+ single deviations \(0 %\)`))

	r = reconciletest.Search(t, breeding.Case(breeding.Right), &reconciletest.Options{Budget: breeding.Budget, Seeds: 1})
	g.Expect(r.Covered()).To(gomega.BeTrue())
	g.Expect(r.String()).To(gomega.ContainSubstring("(100 %)"))
}

// In CI green means that every single deviation was tried, unless the test says how long it may take.
func TestTheEnvironmentHasTheBudget(t *testing.T) {
	usual := time.Minute
	if testing.Short() {
		usual = 2 * time.Second
	}
	for name, c := range map[string]struct {
		given        time.Duration
		ci, variable string
		budget       time.Duration
		strict       bool
		err          string
	}{
		"nothing":         {0, "", "", usual, false, ""},
		"the test":        {time.Second, "", "", time.Second, false, ""},
		"CI":              {0, "true", "", usual, true, ""},
		"the test in CI":  {time.Second, "true", "", time.Second, false, ""},
		"the environment": {time.Second, "", "90s", 90 * time.Second, true, ""},
		"a typing error":  {0, "", "90", 0, false, `RECONCILETEST_BUDGET="90": must be a duration`},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			t.Setenv("CI", c.ci)
			t.Setenv("RECONCILETEST_BUDGET", c.variable)
			o := reconciletest.Options{Budget: c.given}
			budget, strict, err := reconciletest.BudgetOf(&o)
			if c.err != "" {
				g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring(c.err)))
				return
			}
			g.Expect(err).NotTo(gomega.HaveOccurred())
			g.Expect(budget).To(gomega.Equal(c.budget))
			g.Expect(strict).To(gomega.Equal(c.strict && !testing.Short()))
		})
	}
}
