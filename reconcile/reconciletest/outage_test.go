package reconciletest_test

import (
	"context"
	"sync"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// givingUp does not retry a parent after the fifth failure, as the example of
// client-go's workqueue does.
func givingUp() breeding.Breed {
	var mu sync.Mutex
	failures := map[types.UID]int{}
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		err := breeding.Right(ctx, b, p)
		mu.Lock()
		defer mu.Unlock()
		if failures[p.UID]++; err == nil || failures[p.UID] == 5 {
			delete(failures, p.UID)
			return nil
		}
		return err
	}
}

// A single failure does not show that a program gives up after a few. An outage
// of half a minute does.
func TestAnOutageFindsAProgramThatGivesUp(t *testing.T) {
	g := gomega.NewWithT(t)
	right := breeding.Case(breeding.Right)
	lines, found := reconciletest.TraceOf(t, right, nil, "u3")
	g.Expect(found).To(gomega.BeEmpty())
	g.Expect(lines).To(gomega.ContainElement(gomega.HaveSuffix("<<< UNREACHABLE")))

	exhaustive(t)
	c := breeding.Case(nil)
	c.Run = bootEach(givingUp)
	r := reconciletest.Search(t, c, &reconciletest.Options{Budget: breeding.Budget})
	g.Expect(r.Failure).To(gomega.HavePrefix("the server refuses every call for a while, from call "))
	g.Expect(r.Failure).To(gomega.ContainSubstring("hint: the program gives up after some failures"))
	g.Expect(r.Oracle).To(gomega.Equal("state"))
	g.Expect(reconciletest.ReplayText(t, c, nil, r.Token)).To(gomega.ContainSubstring("DOWN      the server"))
}

// sweeping deletes children of parents that do not exist. The buggy one treats
// a failed list as an empty list. The right one does nothing if the list fails.
func sweeping(right bool) breeding.Breed {
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		if err := breeding.Right(ctx, b, p); err != nil {
			return err
		}
		there := map[string]bool{}
		parents, err := b.Client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{LabelSelector: "parent"})
		switch {
		case err == nil:
			for _, p := range parents.Items {
				there[p.Name+"-child"] = true
			}
		case right:
			return err
		}
		for s := range b.Children.Snapshot().All() {
			if there[s.Name] {
				continue
			}
			err := b.Client.CoreV1().Secrets(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	}
}

// Objects that were deleted by mistake are created again at once, so the state
// at the end is correct.
func TestAFailedReadDeletesNothing(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(sweeping(false))
	c.Workload, c.Goal = c.Workload[1:2], nil // with one parent, its child goes whenever the list fails
	r := reconciletest.Search(t, c, &reconciletest.Options{Budget: breeding.Budget})
	g.Expect(r.Failure).To(gomega.MatchRegexp(
		`^(500|410) instead of call \d+: it deletes secrets d/a-child: 1, and without the error 0`))
	g.Expect(r.Failure).To(gomega.ContainSubstring("hint: a failed read does not mean that nothing exists"))
	g.Expect(r.Oracle).To(gomega.Equal("counts"))

	c.Run = breeding.Run(sweeping(true))
	r = reconciletest.Search(t, c, &reconciletest.Options{Budget: breeding.Budget})
	g.Expect(r.Failure).To(gomega.BeEmpty())
}
