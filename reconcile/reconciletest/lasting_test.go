package reconciletest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// together breeds for all parents in each reconcile. The buggy one stops at the
// first error, and never reaches the later parents.
func together(joined bool) breeding.Breed {
	return func(ctx context.Context, b *breeding.Breeder, _ *corev1.ConfigMap) error {
		parents, err := b.Client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{LabelSelector: "parent"})
		if err != nil {
			return err
		}
		var errs []error
		for _, p := range parents.Items {
			if err := breeding.Right(ctx, b, &p); err != nil && !joined {
				return err
			} else if err != nil {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	}
}

// elsewhere is a parent in a namespace.
func elsewhere(namespace, name string) *corev1.ConfigMap {
	p := breeding.Parent(name)
	p.Namespace = namespace
	return p
}

func TestARefusalThatDoesNotEndStopsOnlyWhatItStrikes(t *testing.T) {
	for name, row := range map[string]struct {
		breed breeding.Breed
		match string
		want  string // in the failure; empty if the case must not fail
	}{
		"one object stops all":     {together(false), "^q", "has nothing to do with the refusal.*\n.*- secrets ./[a-z]+-child = there"},
		"one namespace stops all":  {together(false), "^n", "has nothing to do with the refusal.*\n.*- secrets y/three-child"},
		"one object stops none":    {together(true), "^q", ""},
		"one namespace stops none": {together(true), "^n", ""},
		"a key for each object":    {breeding.Right, "^[qn]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(row.breed)
			c.Goal, c.Workload = nil, nil
			c.Objects = []runtime.Object{elsewhere("x", "one"), elsewhere("x", "two"), elsewhere("y", "three")}
			r := reconciletest.FailureOf(t, c, nil, row.match)
			if row.want == "" {
				g.Expect(r.Failure).To(gomega.BeEmpty())
				g.Expect(r.Runs).To(gomega.BeNumerically(">", 3+2))
				return
			}
			g.Expect(r.Oracle).To(gomega.Equal("others"))
			g.Expect(r.Reason).To(gomega.Equal("one-stops-all"))
			g.Expect(r.Failure).To(gomega.MatchRegexp(row.want))
			g.Expect(r.Failure).To(gomega.ContainSubstring("REFUSED   every"))
		})
	}
}
