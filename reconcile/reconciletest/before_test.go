package reconciletest_test

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// typed breeds children of a type that the old version did not give them, and
// that cannot be changed. The buggy one tries to change it; the other one
// deletes such a child, and creates it again.
func typed(recreates bool) breeding.Breed {
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		const want = "example.com/child"
		secrets := b.Client.CoreV1().Secrets(p.Namespace)
		children := b.ChildrenOf(p)
		if len(children) == 0 {
			child := breeding.Child(p)
			child.Type = want
			return b.Create(ctx, child)
		}
		child := children[0]
		if child.Type == want || child.DeletionTimestamp != nil {
			return b.Ready(ctx, p) // a restored server may lack what the old version has written
		}
		if recreates {
			return secrets.Delete(ctx, child.Name, *metav1.NewPreconditionDeleteOptions(string(child.UID)))
		}
		edit := child.DeepCopy()
		edit.Type = want
		_, err := secrets.Update(ctx, edit, metav1.UpdateOptions{})
		return err
	}
}

func TestAnUpgradeFindsWhatTheOldVersionHasLeft(t *testing.T) {
	for name, row := range map[string]struct {
		recreates bool
		before    func(env *reconciletest.Env) error
		want      string // in the failure; empty if the case must not fail
	}{
		"a field is immutable":   {false, breeding.Run(breeding.Right), "update secrets d/a-child   → 422"},
		"it recreates the child": {true, breeding.Run(breeding.Right), ""},
		"there is no upgrade":    {false, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(typed(row.recreates))
			c.Before, c.Workload = row.before, nil
			r := reconciletest.Search(t, c, &reconciletest.Options{Budget: 10 * time.Second})
			if row.want == "" {
				g.Expect(r.Failure).To(gomega.BeEmpty())
				return
			}
			g.Expect(r.Failure).To(gomega.ContainSubstring(row.want))
			g.Expect(r.Reason).To(gomega.Equal("refused"))
		})
	}
}

// versions is a program of several replicas, all of which write. It gives each
// parent the annotation version. If keepsLater is set, it does not replace the
// annotation of a later version.
func versions(version string, keepsLater bool) func(env *reconciletest.Env) error {
	return breeding.Run(func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		if have := p.Annotations["version"]; have == version || keepsLater && have > version {
			return nil
		}
		return b.Annotate(ctx, p, "version", version)
	})
}

// rollout is an upgrade with two replicas.
func rollout(keepsLater bool) *reconciletest.Case {
	c := breeding.Case(breeding.Right)
	c.Goal, c.Workload, c.Replicas = nil, nil, 2
	c.Before, c.Run = versions("1", keepsLater), versions("2", keepsLater)
	return c
}

func TestVersionsThatFightInARolloutAreFound(t *testing.T) {
	g := gomega.NewWithT(t)
	r := reconciletest.FailureOf(t, rollout(false), &reconciletest.Options{Steps: 1000}, "^v")
	g.Expect(r.Reason).To(gomega.Equal("mixed-versions"))
	g.Expect(r.Failure).To(gomega.ContainSubstring("the old version and the new one run at the same time"))
	g.Expect(reconciletest.FailureOf(t, rollout(true), nil, "^v").Failure).To(gomega.BeEmpty())
}
