package reconciletest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// discouraged does not try again for a parent after an error for which
// condition returns true.
func discouraged(condition func(error) bool) breeding.Breed {
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		err := breeding.Right(ctx, b, p)
		if condition(err) {
			return reconcile.Terminal(err)
		}
		return err
	}
}

// careful reads the child from the server before it creates one, and takes a
// 404 for its absence. Without the child it forgets that the parent was ready.
func careful(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	_, err := b.Client.CoreV1().Secrets(p.Namespace).Get(ctx, p.Name+"-child", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return breeding.Right(ctx, b, p)
}

func TestACaseSaysWhatTheServerAnswers(t *testing.T) {
	quota := func(code int, body string) []reconciletest.Step {
		return []reconciletest.Step{
			reconciletest.Answer("create,patch secrets", code, body),
			reconciletest.Create(breeding.Parent("b")),
			reconciletest.Answer("* secrets d/b-child", 0, ""),
			reconciletest.Answer("create,patch secrets", 0, ""),
		}
	}
	for name, row := range map[string]struct {
		breed    breeding.Breed
		workload []reconciletest.Step
		want     string // in the failure; empty if the case must not fail
	}{
		"a quota":                {discouraged(apierrors.IsForbidden), quota(403, ""), `1 children: want two`},
		"a proxy":                {discouraged(apierrors.IsNotFound), quota(404, "no such page"), `1 children: want two`},
		"a quota, and it waits":  {breeding.Right, quota(403, ""), ""},
		"a proxy, and it waits":  {careful, quota(404, "no such page"), ""},
		"a word is missing":      {breeding.Right, []reconciletest.Step{reconciletest.Answer("secrets", 403, "")}, `want a verb, a resource`},
		"a code that HTTP lacks": {breeding.Right, []reconciletest.Step{reconciletest.Answer("get secrets", 7, "")}, `and an HTTP status code`},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(row.breed)
			c.Objects, c.Workload = []runtime.Object{breeding.Parent("a")}, row.workload
			c.Unwatched, c.Goal = []string{"secrets"}, wants(2)
			r := reconciletest.Search(t, c, &reconciletest.Options{Seeds: 1, Budget: time.Nanosecond, Rest: 20 * time.Minute})
			if row.want == "" {
				g.Expect(r.Failure).To(gomega.BeEmpty())
				return
			}
			g.Expect(r.Failure).To(gomega.ContainSubstring(row.want))
		})
	}
}

// wants returns a Goal that requires the given number of children.
func wants(children int) func(w *reconciletest.World) error {
	return func(w *reconciletest.World) error {
		all, err := w.Objects("secrets")
		if err == nil && len(all) != children {
			err = fmt.Errorf("%d children: want two", len(all))
		}
		return err
	}
}
