package reconciletest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// A Run that takes a second to return is not late, however long nothing else
// happens.
func TestALongRestIsNoHang(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(breeding.Right)
	c.Workload, c.Goal = nil, nil
	c.Run = func(env *reconciletest.Env) error {
		defer func() { <-time.After(time.Second) }() // it drains
		return breeding.Run(breeding.Right)(env)
	}
	r := reconciletest.Search(t, c, &reconciletest.Options{Rest: 10 * time.Minute, Seeds: 10, Budget: breeding.Budget})
	g.Expect(r.Failure).To(gomega.BeEmpty())
}

const held = "example.com/held"

// holding puts a finalizer on each parent, and takes it off when the parent is
// being deleted.
func holding(env *reconciletest.Env) error {
	client := env.Client()
	set := func(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
		p, ok := r.Object()
		if !ok {
			return reconcile.Result{}, nil
		}
		_, err := patch.Merge(ctx, client.CoreV1().ConfigMaps, p, nil, func(edit *corev1.ConfigMap) {
			edit.Finalizers = slices.DeleteFunc(edit.Finalizers, func(f string) bool { return f == held })
			if p.DeletionTimestamp == nil {
				edit.Finalizers = append(edit.Finalizers, held)
			}
		})
		return reconcile.Result{}, err
	}
	c, err := reconcile.New("holding", breeding.Parents(client), reconcile.Func[*corev1.ConfigMap](set), nil)
	if err != nil {
		return err
	}
	return c.Run(env.Context())
}

// A user who cannot create an object yet, because the old one still exists,
// tries again.
func TestAStepThatFailsIsTriedAgain(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(nil)
	c.Run, c.Goal = holding, nil
	c.Workload = []reconciletest.Step{
		reconciletest.Delete("configmaps", "d/a"), reconciletest.Create(breeding.Parent("a")),
	}
	r := reconciletest.Search(t, c, &reconciletest.Options{Seeds: 20, Budget: breeding.Budget})
	g.Expect(r.Failure).To(gomega.BeEmpty())

	lines, found := reconciletest.TraceOf(t, c, nil, "o1.2")
	g.Expect(found).To(gomega.BeEmpty())
	g.Expect(lines).To(gomega.ContainElement(gomega.HavePrefix("  cannot be done yet: ")))
}

// A step that fails twice is a finding about the program.
func TestAStepThatFailsAgainIsAFinding(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(nil)
	inner, boots := holding, 0
	c.Goal = nil
	c.Outside = func() any { boots = 0; return nil }
	c.Run = func(env *reconciletest.Env) error {
		if boots++; boots > 1 { // it does nothing from now on
			<-env.Context().Done()
			return nil
		}
		return inner(env)
	}
	c.Workload = []reconciletest.Step{
		reconciletest.Delete("configmaps", "d/a"), reconciletest.Create(breeding.Parent("a")),
	}
	_, found := reconciletest.TraceOf(t, c, nil, "o1.2")
	g.Expect(found).To(gomega.ContainSubstring(`step "create ConfigMap d/a" of the workload`))
}

// A heartbeat is declared by its field: it neither keeps the program from
// resting, nor counts at the end.
func TestAnIgnoredFieldIsFreeEverywhere(t *testing.T) {
	exhaustive(t)
	g := gomega.NewWithT(t)
	beating := func(ignore ...string) *reconciletest.Report {
		c := breeding.Case(nil)
		c.Run, c.Workload, c.Goal, c.Ignore = ticking(50*time.Second), nil, nil, ignore
		return reconciletest.Search(t, c, &reconciletest.Options{Seeds: 10, Budget: breeding.Budget, Steps: 3000})
	}
	g.Expect(beating("configmaps data.x").Failure).To(gomega.BeEmpty())
	g.Expect(beating("data.x").Failure).To(gomega.BeEmpty())
	g.Expect(beating("secrets data.x").Oracle).To(gomega.Equal("rest"))
}

// stuckAtStop has a deadlock at its end: it waits for a goroutine that waits
// for it.
func stuckAtStop(env *reconciletest.Env) error {
	ended := make(chan struct{})
	if err := breeding.Run(breeding.Right)(env); err != nil {
		return err
	}
	<-ended
	return nil
}

// A Run that does not return is a finding like others: with a token, and the
// place in the program.
func TestADeadlockAtStopHasAToken(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(nil)
	c.Run = stuckAtStop
	r := reconciletest.Search(t, c, nil)
	g.Expect(r.Oracle).To(gomega.Equal("stop"))
	g.Expect(r.Token).To(gomega.HavePrefix("rt1:"))
	g.Expect(r.Failure).To(gomega.MatchRegexp(`Run did not return within 2m0s .*\n.*at right_test.go:\d+, waits: chan receive`))
	g.Expect(r.Failure).NotTo(gomega.ContainSubstring("fleet.go"), "the kit's own goroutines are of no interest")
}

// shuffled makes children in the order of a map.
func shuffled(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	names := map[string]bool{"a": true, "b": true, "c": true, "d": true, "e": true, "f": true}
	if len(b.ChildrenOf(p)) < len(names) {
		for name := range names {
			s := breeding.Child(p)
			s.Name += name
			if err := b.Create(ctx, s); err != nil {
				return err
			}
		}
	}
	return b.Ready(ctx, p)
}

// If a program decides by chance, the report says so at once, and where.
func TestChanceIsNamed(t *testing.T) {
	exhaustive(t)
	g := gomega.NewWithT(t)
	c := breeding.Case(shuffled)
	c.Workload, c.Goal = nil, nil
	r := reconciletest.FailureOf(t, c, nil, `^[ct]`)
	g.Expect(r.Failure).To(gomega.BeEmpty())
	g.Expect(r.Chance).To(gomega.MatchRegexp(`right_test.go:\d+|breeding.go:\d+`))

	c = breeding.Case(shuffled)
	c.Always = func(w *reconciletest.World) error { // it finds something, sooner or later
		secrets, err := w.Objects("secrets")
		if err == nil && len(secrets) > 6 && slices.ContainsFunc(secrets, func(s *unstructured.Unstructured) bool {
			return s.GetName() == "b-childa"
		}) {
			err = fmt.Errorf("a child too many")
		}
		return err
	}
	r = reconciletest.Search(t, c, &reconciletest.Options{Budget: breeding.Budget})
	g.Expect(r.Failure).To(gomega.ContainSubstring("decides by chance"))
	for range 5 {
		g.Expect(reconciletest.ReplayText(t, c, nil, r.Token)).To(gomega.ContainSubstring("a child too many"))
	}
}
