package reconciletest_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// invented gives each child a name and a value by chance.
func invented(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	if len(b.ChildrenOf(p)) > 0 {
		return nil
	}
	s := breeding.Child(p)
	s.Name += "-" + strings.ToLower(rand.Text())
	s.StringData = map[string]string{"token": rand.Text()}
	return b.Create(ctx, s)
}

// fiveMinutes is a job outside, which the program waits for before it says that
// a parent is ready.
func fiveMinutes(env *reconciletest.Env) error {
	client, jobs := env.Client(), env.Outside().(map[string]time.Time)
	b := &breeding.Breeder{Client: client, Children: informer.For(client.CoreV1().Secrets(""), nil)}
	do := func(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
		p, ok := r.Object()
		if !ok || p.Annotations["ready"] != "" {
			return reconcile.Result{}, nil
		}
		if _, started := jobs[p.Name]; !started {
			jobs[p.Name] = time.Now()
		}
		if left := time.Until(jobs[p.Name].Add(5 * time.Minute)); left > 0 {
			return reconcile.After(left), nil
		}
		return reconcile.Result{}, b.Ready(ctx, p)
	}
	return reconcile.Run(env.Context(), "jobs", breeding.Parents(client), reconcile.Func[*corev1.ConfigMap](do))
}

// expiring gives each parent a child for five minutes, and says when it is
// over.
func expiring(env *reconciletest.Env) error {
	client := env.Client()
	b := &breeding.Breeder{Client: client, Children: informer.For(client.CoreV1().Secrets(""), nil)}
	do := func(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
		p, ok := r.Object()
		if !ok || p.DeletionTimestamp != nil {
			return reconcile.Result{}, nil
		}
		children := b.ChildrenOf(p)
		switch over := p.Annotations["ready"] != ""; {
		case over && len(children) == 0:
			return reconcile.Result{}, nil
		case over:
			child := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &children[0].UID}}
			err := client.CoreV1().Secrets(p.Namespace).Delete(ctx, children[0].Name, child)
			if names.IsNotFound(err, corev1.Resource("secrets"), children[0].Name) {
				err = nil
			}
			return reconcile.Result{}, err
		case len(children) == 0:
			return reconcile.Result{}, b.Create(ctx, breeding.Child(p))
		}
		if left := time.Until(children[0].CreationTimestamp.Add(5 * time.Minute)); left > 0 {
			return reconcile.After(left), nil
		}
		return reconcile.Result{}, b.Ready(ctx, p)
	}
	c, err := reconcile.New("expiring", breeding.Parents(client), reconcile.Func[*corev1.ConfigMap](do),
		&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(b.Children)}})
	if err != nil {
		return err
	}
	return c.Run(env.Context())
}

// Intended differences are declared in one line, and no longer reported.
func TestDeclaredDifferencesAreNotReported(t *testing.T) {
	exhaustive(t)
	for _, d := range []struct {
		name, plan string
		run        func(env *reconciletest.Env) error
		ignore     []string
		options    *reconciletest.Options
	}{
		{
			"a random choice and a made-up name", "x1", breeding.Run(invented),
			[]string{"secrets metadata.name", "secrets data.token", "secrets stringData"},
			nil,
		},
		{"a job of five minutes", "", fiveMinutes, nil, &reconciletest.Options{Rest: 6 * time.Minute}},
		{"a time to live", "", expiring, nil, &reconciletest.Options{Rest: 6 * time.Minute}},
		{"what is made by the clock", "j3", ticking(45 * time.Minute), []string{"configmaps data.x"}, nil},
		{"batches", "d2.twice", counted, []string{"secrets *"}, nil},
		{
			"a Pod that has a minute to end", "", drains(time.Minute), nil,
			&reconciletest.Options{KnownFindings: []string{"a cluster kills it"}, Seeds: 10, Budget: breeding.Budget},
		},
	} {
		t.Run(d.name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(nil)
			c.Run, c.Goal, c.Unwatched = d.run, nil, []string{"secrets"}
			c.Outside = func() any { return map[string]time.Time{} }
			if d.options != nil {
				c.Goal = allReady
			}
			if d.plan == "" { // no plan names a step
				c.Workload = c.Workload[1:2]
			}
			find := func(o *reconciletest.Options) string {
				if d.plan == "" {
					return reconciletest.Search(t, c, o).Failure
				}
				_, found := reconciletest.TraceOf(t, c, o, d.plan)
				return found
			}
			g.Expect(find(nil)).NotTo(gomega.BeEmpty(), "it is not declared")
			c.Ignore = d.ignore
			g.Expect(find(d.options)).To(gomega.BeEmpty())
		})
	}
}

// Other clients do not make changes that a program need not notice.
func TestAnUnwatchedOutputIsLeftAlone(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(nil)
	c.Run = noTrigger
	g.Expect(reconciletest.Search(t, c, nil).Failure).To(gomega.ContainSubstring("does not watch them"))
	c.Unwatched = []string{"secrets"}
	r := reconciletest.Search(t, c, &reconciletest.Options{Seeds: 10, Budget: breeding.Budget})
	g.Expect(r.Failure).To(gomega.BeEmpty())
}

// The program cannot restore a value that a step has written to an output.
func TestAnOutputOfAStepIsNotDeleted(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(breeding.Right)
	c.Goal = nil
	c.Workload = []reconciletest.Step{
		reconciletest.Patch("secrets", "d/a-child", `{"metadata":{"annotations":{"by":"others"}}}`),
	}
	r := reconciletest.Search(t, c, &reconciletest.Options{Seeds: 10, Budget: breeding.Budget})
	g.Expect(r.Failure).To(gomega.BeEmpty())
}

func allReady(w *reconciletest.World) error {
	parents, err := reconciletest.List[corev1.ConfigMap](w, "configmaps")
	for _, p := range parents {
		if p.Labels["parent"] != "" && p.Annotations["ready"] == "" {
			return context.DeadlineExceeded
		}
	}
	return err
}
