package reconciletest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// exactlyKeyed gives every Widget a Secret, and deletes the Secrets of other
// Widgets, now and then. The buggy one takes a kind that is not served for a
// kind without objects.
func exactlyKeyed(trusts bool) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		ctx, client := env.Context(), dynamic.NewForConfigOrDie(env.Config()).Resource(widgets)
		secrets := env.Client().CoreV1().Secrets("d")
		for ctx.Err() == nil {
			all, err := client.List(ctx, metav1.ListOptions{})
			if trusts && apierrors.IsNotFound(err) {
				all, err = &unstructured.UnstructuredList{}, nil
			}
			have, errHave := secrets.List(ctx, metav1.ListOptions{})
			if err == nil && errHave == nil {
				wanted := map[string]bool{}
				for _, w := range all.Items {
					wanted[w.GetName()] = true
					_ = keyOf(ctx, env.Client(), &w)
				}
				for _, s := range have.Items {
					if !wanted[strings.TrimSuffix(s.Name, "-key")] {
						_ = secrets.Delete(ctx, s.Name, metav1.DeleteOptions{})
					}
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Second):
			}
		}
		return nil
	}
}

func TestAKindThatIsNotServedHasObjects(t *testing.T) {
	for name, trusts := range map[string]bool{"it trusts the 404": true, "it waits": false} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := ofWidgets(exactlyKeyed(trusts))
			c.Unwatched = []string{"secrets", "widgets.example.com"}
			r := reconciletest.FailureOf(t, c, nil, "^U")
			if !trusts {
				g.Expect(r.Failure).To(gomega.BeEmpty())
				g.Expect(r.Runs).To(gomega.Equal(3 + 2))
				return
			}
			g.Expect(r.Oracle).To(gomega.Equal("past"), r.Failure)
			g.Expect(r.Reason).To(gomega.Equal("misled"))
			g.Expect(r.Failure).To(gomega.HavePrefix("from rest 1 on, custom resource 1 is not served for five minutes: " +
				"all was done, and the program deletes secrets d/w-key"))
		})
	}
}

// discovering reads all of discovery before it breeds. The strict one ends if
// any group is missing.
func discovering(strict bool) *reconciletest.Case {
	c := breeding.Case(nil)
	c.Run = func(env *reconciletest.Env) error {
		_, _, err := discovery.NewDiscoveryClientForConfigOrDie(env.Config()).ServerGroupsAndResources()
		if err != nil && (strict || !discovery.IsGroupDiscoveryFailedError(err)) {
			return err
		}
		return breeding.Run(breeding.Right)(env)
	}
	return c
}

func TestAnAggregatedAPIThatDoesNotAnswerStopsNothing(t *testing.T) {
	for name, strict := range map[string]bool{"it needs all groups": true, "it goes on": false} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			r := reconciletest.FailureOf(t, discovering(strict), nil, "^S")
			g.Expect(r.Runs).To(gomega.Equal(3 + 1))
			if !strict {
				g.Expect(r.Failure).To(gomega.BeEmpty())
				return
			}
			g.Expect(r.Failure).To(gomega.HavePrefix("the server of an aggregated API does not answer"))
			g.Expect(r.Failure).To(gomega.ContainSubstring("metrics.k8s.io/v1beta1"))
		})
	}
}
