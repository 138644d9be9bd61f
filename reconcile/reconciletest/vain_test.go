package reconciletest_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// failing never gets anything done.
func failing(context.Context, *breeding.Breeder, *corev1.ConfigMap) error {
	return errors.New("no such luck")
}

// stumbling fails for a while before it succeeds.
func stumbling(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	if time.Since(p.CreationTimestamp.Time) < 5*time.Second {
		return errors.New("no such luck")
	}
	return breeding.Right(ctx, b, p)
}

// picky is right, but for a parent that has got data: those it refuses, by an
// error that is retried or one that is not.
func picky(refuse func(error) error) breeding.Breed {
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		if len(p.Data) > 0 {
			return refuse(errors.New("no data, please"))
		}
		return breeding.Right(ctx, b, p)
	}
}

// waiting is correct. It returns errors to wait for an event that arrives
// without its help.
func waiting(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	if err := breeding.Right(ctx, b, p); err != nil || time.Since(p.CreationTimestamp.Time) > 5*time.Second {
		return err
	}
	return errors.New("the load balancer is not ready yet")
}

// halfway writes that it begins, and then fails.
func halfway(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	if err := b.Annotate(ctx, p, "began", "yes"); err != nil {
		return err
	}
	return errors.New("no such luck")
}

// A run without faults does not show that a program works if the program only
// repeats an error or does not write, or if the end is the same without it.
func TestAProgramThatDoesNoWorkIsFound(t *testing.T) {
	retried := func(err error) error { return err }
	withoutGoal := func(c *reconciletest.Case) { c.Goal = nil }
	negative := func(c *reconciletest.Case) { c.Goal = anything }
	last := func(c *reconciletest.Case) { c.Goal, c.Workload = nil, c.Workload[1:2] }
	for _, v := range []struct {
		name   string
		breed  breeding.Breed
		change func(c *reconciletest.Case)
		known  []string
		want   string // in the failure; empty if the case must not fail
	}{
		{"every reconcile fails", failing, withoutGoal, nil, `no write follows: .*no such luck(.*\n)*.*Options\.KnownFindings\.`},
		{"every reconcile fails, and the goal is negative", failing, negative, nil, "no write follows: .*no such luck"},
		{"it begins, and fails", halfway, withoutGoal, nil, "no write follows: .*no such luck"},
		{"it fails at last", picky(retried), last, nil, "no write follows: .*no data, please"},
		{"it fails at last, as is known", picky(retried), last, []string{"no data, please"}, ""},
		{"it fails, and a write of the next step follows", picky(retried), func(c *reconciletest.Case) {
			c.Goal, c.Workload = nil, []reconciletest.Step{c.Workload[1], c.Workload[0]}
		}, nil, ""},
		{"it refuses what is not valid, once", picky(reconcile.Terminal), last, nil, ""},
		{"it refuses each of two that are not valid, once", picky(reconcile.Terminal), func(c *reconciletest.Case) {
			c.Goal, c.Workload = nil, []reconciletest.Step{inOneStep(
				reconciletest.Patch("configmaps", "d/web-1", `{"data":{"x":"1"}}`),
				reconciletest.Patch("configmaps", "d/web-2", `{"data":{"x":"1"}}`),
			)}
			c.Objects = []runtime.Object{breeding.Parent("web-1"), breeding.Parent("web-2")}
		}, nil, ""},
		{"it refuses what is not valid at each of two changes", picky(reconcile.Terminal), func(c *reconciletest.Case) {
			c.Goal, c.Workload = nil, []reconciletest.Step{inOneStep(
				reconciletest.Patch("configmaps", "d/a", `{"data":{"x":"1"}}`),
				reconciletest.Patch("configmaps", "d/a", `{"data":{"x":"2"}}`),
			)}
		}, nil, ""},
		{"it waits by errors, and they end", waiting, withoutGoal, nil, ""},
		{"it fails before it writes", stumbling, withoutGoal, nil, ""},
		{"it counts what it sees, and Run begins anew", nothing, exporting(true), nil, ""},
		{"it counts what it sees, and Run does not begin anew", nothing, exporting(false), nil, `memory.*Case\.Outside`},
		{"it does nothing", nothing, withoutGoal, nil, "writes nothing, and the case has no Goal"},
		{"it does nothing, and has a cache", nothing, watching, nil, "writes nothing, and the case has no Goal"},
		{
			"it does nothing, and the goal is negative", nothing, negative, nil,
			`the Goal holds without the program.*Options\.KnownFindings`,
		},
		{"it must not write, as is known", nothing, negative, []string{"the Goal holds without the program"}, ""},
		{
			"it errs and writes nothing, and only the errors are known", failing, negative,
			[]string{"ends in errors"},
			"the Goal holds without the program",
		},
	} {
		t.Run(v.name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(v.breed)
			v.change(c)
			r := reconciletest.Search(t, c, &reconciletest.Options{KnownFindings: v.known, Seeds: 1, Budget: time.Nanosecond})
			if v.want == "" {
				g.Expect(r.Failure).To(gomega.BeEmpty())
				return
			}
			g.Expect(r.Failure).To(gomega.MatchRegexp(v.want))
			g.Expect(r.Failure).NotTo(gomega.ContainSubstring("by chance"))
			g.Expect(r.Oracle).To(gomega.Equal("vain"))
		})
	}
}

// watching registers a cache that matches the server.
func watching(c *reconciletest.Case) {
	c.Goal = nil
	run := c.Run
	c.Run = func(env *reconciletest.Env) error {
		env.Cache("configmaps", func() []any { return nil })
		return run(env)
	}
}

// exporting makes a case of a program that keeps in memory how many parents it
// has seen, and writes nothing.
func exporting(anew bool) func(c *reconciletest.Case) {
	seen := map[string]bool{}
	return func(c *reconciletest.Case) {
		run := breeding.Run(func(_ context.Context, _ *breeding.Breeder, p *corev1.ConfigMap) error {
			seen[p.Name] = true
			return nil
		})
		c.Run = func(env *reconciletest.Env) error {
			if anew {
				clear(seen)
			}
			return run(env)
		}
		c.Goal = func(*reconciletest.World) error {
			if !seen["a"] {
				return errors.New("a was not seen")
			}
			return nil
		}
	}
}

// inOneStep is one step that is two, with a little time between them.
func inOneStep(a, b reconciletest.Step) reconciletest.Step {
	return reconciletest.Step{Name: a.Name + ", " + b.Name, Do: func(ctx context.Context, w *reconciletest.World) error {
		if err := a.Do(ctx, w); err != nil {
			return err
		}
		<-time.After(time.Second)
		return b.Do(ctx, w)
	}}
}

// nothing does nothing.
func nothing(context.Context, *breeding.Breeder, *corev1.ConfigMap) error { return nil }

// A run with known findings counts once, whatever their number, and the summary
// has the first error.
func TestAKnownErrorIsInTheSummary(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(failing)
	c.Goal, c.Workload = anything, nil
	r := reconciletest.Search(t, c, &reconciletest.Options{
		Seeds: 1, Budget: time.Nanosecond, KnownFindings: []string{"no such luck", "the Goal holds without the program"},
	})
	g.Expect(r.Failure).To(gomega.BeEmpty())
	g.Expect(r.KnownFindings).To(gomega.Equal(1))
	g.Expect(r.String()).To(gomega.ContainSubstring("no such luck"))
}

// Programs log the call that their stop cuts off, such as the last look at a
// Lease.
func TestAnErrorOfTheStopIsNotInTheSummary(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(nothing)
	c.Goal, c.Workload = anything, nil
	run := c.Run
	c.Run = func(env *reconciletest.Env) error {
		err := run(env)
		logr.FromContextOrDiscard(env.Context()).Error(env.Context().Err(), "stopping")
		return err
	}
	r := reconciletest.Search(t, c, &reconciletest.Options{
		Seeds: 1, Budget: time.Nanosecond, KnownFindings: []string{"the Goal holds without the program"},
	})
	g.Expect(r.Failing).To(gomega.BeEmpty())
}

// FailNow would end the goroutine that drives the run, or the one that writes.
func TestAGoalThatEndsItsGoroutineIsAnError(t *testing.T) {
	ends := func(*reconciletest.World) error {
		goruntime.Goexit()
		return nil
	}
	for name, change := range map[string]func(c *reconciletest.Case){
		"goal":   func(c *reconciletest.Case) { c.Goal = ends },
		"always": func(c *reconciletest.Case) { c.Always = ends },
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(breeding.Right)
			change(c)
			r := reconciletest.Search(t, c, nil)
			g.Expect(r.Oracle).To(gomega.Equal(name))
			g.Expect(r.Failure).To(gomega.ContainSubstring("require do: return an error instead"))
		})
	}
}

// The report says how much the budget has left out.
func TestTheShareIsReported(t *testing.T) {
	exhaustive(t)
	g := gomega.NewWithT(t)
	r := reconciletest.Search(t, breeding.Case(breeding.Right), &reconciletest.Options{Budget: time.Nanosecond})
	g.Expect(r.Tried).To(gomega.BeZero())
	g.Expect(r.Planned).To(gomega.BeNumerically(">", 80))
	g.Expect(r.Covered()).To(gomega.BeFalse())
	g.Expect(r.String()).To(gomega.MatchRegexp(`0 of \d+ single deviations \(0 %\)`))

	c := breeding.Case(breeding.Right)
	c.Workload = c.Workload[1:2]
	r = reconciletest.Search(t, c, &reconciletest.Options{Budget: breeding.Budget, Seeds: 1})
	g.Expect(r.Covered()).To(gomega.BeTrue())
	g.Expect(r.String()).To(gomega.ContainSubstring("(100 %)"))
}

// In CI green means that every single deviation was tried, unless the test says
// how long it may take.
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
