package reconciletest_test

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// recording breeds, and keeps a record outside of how far it has come with each
// parent. The buggy one compares resourceVersions with the record.
func recording(compares bool) *reconciletest.Case {
	c := breeding.Case(nil)
	c.Outside = func() any { return &sync.Map{} }
	c.Run = func(env *reconciletest.Env) error {
		record := env.Outside().(*sync.Map)
		return breeding.Run(func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
			now, _ := strconv.ParseInt(p.ResourceVersion, 10, 64)
			if before, seen := record.Load(p.UID); seen && compares && now < before.(int64) {
				return nil // an old copy
			}
			record.Store(p.UID, now)
			return breeding.Right(ctx, b, p)
		})(env)
	}
	return c
}

// punctual breeds for parents that are young, and finds the others overdue.
func punctual(allowance time.Duration) *reconciletest.Case {
	return breeding.Case(func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		if len(b.ChildrenOf(p)) > 0 || p.Annotations["overdue"] != "" {
			return nil
		}
		if time.Since(p.CreationTimestamp.Time) > allowance {
			return b.Annotate(ctx, p, "overdue", "yes")
		}
		return b.Create(ctx, breeding.Child(p))
	})
}

func TestAnotherWorldThanTheProgramBelievesIsFound(t *testing.T) {
	for name, row := range map[string]struct {
		c           *reconciletest.Case
		reason      string
		match, want string
	}{
		"resourceVersions of before a restore": {recording(true), "restored", "^E", "the server is restored at rest"},
		"a record without them":                {recording(false), "", "^E", ""},
		"a deadline by two clocks": {
			punctual(30 * time.Second), "clocks", "^D", "the server's clock is 45 seconds behind the program's",
		},
		"a deadline with an allowance": {punctual(time.Hour), "", "^D", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			row.c.Goal, row.c.Workload = nil, row.c.Workload[:1]
			r := reconciletest.FailureOf(t, row.c, nil, row.match)
			g.Expect(r.Reason).To(gomega.Equal(row.reason), r.Failure)
			g.Expect(r.Failure).To(gomega.HavePrefix(row.want))
			g.Expect(r.Runs).To(gomega.BeNumerically(">", 3), "a deviation was tried")
		})
	}
}

// labelled gives its children labels. The buggy one also removes the labels of
// other clients.
func labelled(replaces bool) breeding.Breed {
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		want := p.Data["x"]
		if children := b.ChildrenOf(p); len(children) > 0 {
			s := children[0]
			if s.Labels["x"] == want {
				return nil
			}
			edit := s.DeepCopy()
			if replaces || edit.Labels == nil {
				edit.Labels = map[string]string{}
			}
			edit.Labels["x"] = want
			_, err := b.Client.CoreV1().Secrets(s.Namespace).Update(ctx, edit, metav1.UpdateOptions{})
			return err
		}
		s := breeding.Child(p)
		s.Labels = map[string]string{"x": want}
		return b.Create(ctx, s)
	}
}

// exact wants children with exactly its labels, and deletes the others. The
// right one looks only at its own label.
func exact(own bool) breeding.Breed {
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		want := map[string]string{"x": p.Name}
		if children := b.ChildrenOf(p); len(children) > 0 {
			s := children[0]
			if maps.Equal(s.Labels, want) || own && s.Labels["x"] == p.Name {
				return nil
			}
			return b.Client.CoreV1().Secrets(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{})
		}
		s := breeding.Child(p)
		s.Labels = want
		return b.Create(ctx, s)
	}
}

func TestAWebhookThatAddsIsNoReasonToFight(t *testing.T) {
	for name, own := range map[string]bool{"it wants exactly its labels": false, "it wants its label": true} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(exact(own))
			c.Workload, c.Goal = nil, nil
			r := reconciletest.FailureOf(t, c, &reconciletest.Options{Steps: 1000}, "^M")
			g.Expect(r.Runs).To(gomega.BeNumerically(">", 3))
			if own {
				g.Expect(r.Failure).To(gomega.BeEmpty())
				return
			}
			g.Expect(r.Oracle).To(gomega.Equal("rest"))
			g.Expect(r.Reason).To(gomega.Equal("mutated"))
			others := reconciletest.FailureOf(t, c, nil, "^[^Me]")
			g.Expect(others.Failure).To(gomega.BeEmpty(), "others find it, too")
		})
	}
}

func TestWhatAStepHasAddedIsNotRemoved(t *testing.T) {
	for name, replaces := range map[string]bool{"it replaces the labels": true, "it keeps the labels": false} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(labelled(replaces))
			c.Workload = []reconciletest.Step{
				reconciletest.Patch("secrets", "d/a-child", `{"metadata":{"labels":{"backup":"daily"}}}`),
				reconciletest.Patch("configmaps", "d/a", `{"data":{"x":"1"}}`),
			}
			r := reconciletest.FailureOf(t, c, nil, "^t1.0")
			if replaces {
				g.Expect(r.Oracle).To(gomega.Equal("lost"))
				g.Expect(r.Failure).To(gomega.HavePrefix("without any fault: it removes the label backup from secrets d/a-child, " +
					"which a step of the workload has added"))
				return
			}
			g.Expect(r.Failure).To(gomega.BeEmpty())
		})
	}
}
