package reconciletest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// drains returns a Run that takes the time d to return when its context has
// ended.
func drains(d time.Duration) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		err := breeding.Run(breeding.Right)(env)
		<-time.After(d)
		return err
	}
}

// early returns a Run that takes the time d to return if its context ends as
// soon as it has begun.
func early(d time.Duration) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		began := time.Now()
		err := breeding.Run(breeding.Right)(env)
		if time.Since(began) < time.Second {
			<-time.After(d)
		}
		return err
	}
}

// A cluster kills a program that does not end in time, so the rest of its stop
// never happens.
func TestARunThatReturnsTooLateIsFound(t *testing.T) {
	exhaustive(t)
	for name, run := range map[string]func(d time.Duration) func(env *reconciletest.Env) error{
		"always": drains, "after a stop that the plan has": early,
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			look := func(d time.Duration) *reconciletest.Report {
				c := breeding.Case(nil)
				c.Run, c.Goal, c.Workload = run(d), nil, c.Workload[:1]
				return reconciletest.Search(t, c, &reconciletest.Options{Seeds: 10, Budget: breeding.Budget})
			}
			g.Expect(look(30 * time.Second).Failure).To(gomega.BeEmpty())
			late := look(47 * time.Second)
			g.Expect(late.Oracle).To(gomega.Equal("stop"))
			g.Expect(late.Failure).To(gomega.MatchRegexp(`Run returned 47s \(virtual\) after its context had ended: ` +
				`a cluster kills it after 30s \(terminationGracePeriodSeconds\).*\n` +
				`goroutine \d+, at late_test.go:\d+, waits: chan receive`))
			g.Expect(late.Failure).To(gomega.ContainSubstring("hint: work that Run does after its context has ended"))
		})
	}
}

// A delay by the plan is not the program's fault.
func TestARunThatIsHeldUpIsNotLate(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(nil)
	c.Run = func(env *reconciletest.Env) error {
		defer func() {
			ctx := context.WithoutCancel(env.Context())
			_, _ = env.Client().CoreV1().ConfigMaps("d").Get(ctx, "last-words", metav1.GetOptions{})
		}()
		return breeding.Run(breeding.Right)(env)
	}
	o := &reconciletest.Options{Lag: time.Minute}
	heldUp := false
	for call := range strings.FieldsSeq("c3 c4 c5 c6 c7 c8 c9 c10") {
		lines, found := reconciletest.TraceOf(t, c, o, "t1.0+"+call)
		g.Expect(found).To(gomega.BeEmpty())
		heldUp = heldUp || strings.Contains(strings.Join(lines, "\n"), "HELD BACK call      get configmaps d/last-words")
	}
	g.Expect(heldUp).To(gomega.BeTrue())
}
