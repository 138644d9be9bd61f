package reconciletest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// sizedWidget is the Go type of a Widget.
type sizedWidget struct {
	Spec struct {
		Size int64 `json:"size"`
	} `json:"spec"`
}

// keyed returns a program that gives every Widget a Secret, now and then. The
// buggy one does not reach any Widget after one that it cannot decode.
func keyed(joins bool) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		ctx, client := env.Context(), dynamic.NewForConfigOrDie(env.Config()).Resource(widgets)
		for ctx.Err() == nil {
			all, err := client.List(ctx, metav1.ListOptions{})
			if err != nil {
				all = &unstructured.UnstructuredList{}
			}
			for _, w := range all.Items {
				err := keyOf(ctx, env.Client(), &w)
				if err != nil && !joins {
					break
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

// keyOf gives a Widget a Secret.
func keyOf(ctx context.Context, client kubernetes.Interface, w *unstructured.Unstructured) error {
	var typed sizedWidget
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(w.Object, &typed); err != nil {
		return err
	}
	if typed.Spec.Size == 0 {
		return errors.New("a widget has a size")
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: w.GetName() + "-key", OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(w, w.GroupVersionKind()),
	}}}
	_, err := client.CoreV1().Secrets(w.GetNamespace()).Create(ctx, s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func TestAnObjectThatGoCannotDecodeStopsOnlyItself(t *testing.T) {
	for name, row := range map[string]struct {
		joins bool
		match string
		want  string // in the failure; empty if the case must not fail
	}{
		"at the start, it stops all":  {false, `^B1\.0`, `the undecodable object differs.*\n.*- secrets d/[wx]-key = there`},
		"later, it stops what is new": {false, `^B1\.1`, `the undecodable object differs.*\n.*- secrets d/[wx]-key = there`},
		"it stops only itself":        {true, `^B`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := ofWidgets(keyed(row.joins))
			c.Unwatched = []string{"secrets", "widgets.example.com"}
			another := c.Objects[0].DeepCopyObject().(*unstructured.Unstructured)
			another.SetName("x")
			c.Workload = append(c.Workload, reconciletest.Create(another))
			c.Always = func(w *reconciletest.World) error {
				_, err := reconciletest.List[sizedWidget](w, "widgets.example.com") // which does not show the object
				return err
			}
			r := reconciletest.FailureOf(t, c, nil, row.match)
			if row.want == "" {
				g.Expect(r.Failure).To(gomega.BeEmpty())
				g.Expect(r.Runs).To(gomega.Equal(3 + 2))
				return
			}
			g.Expect(r.Oracle).To(gomega.Equal("others"), r.Failure)
			g.Expect(r.Failure).To(gomega.MatchRegexp(row.want))
			g.Expect(r.Failure).To(gomega.ContainSubstring("Go cannot decode an object of custom resource 1, from rest "))
		})
	}
}

// An actor may act on what Always has noted. So Always is called in every run,
// also if its result does not count.
func TestAlwaysIsCalledBesideAnObjectThatGoCannotDecode(t *testing.T) {
	g := gomega.NewWithT(t)
	secretsOf := func(w *reconciletest.World) int {
		all, err := w.Objects("secrets")
		g.Expect(err).NotTo(gomega.HaveOccurred())
		return len(all)
	}
	c := ofWidgets(keyed(true))
	c.Unwatched = []string{"secrets", "widgets.example.com"}
	c.Outside = func() any { return new(int) }
	c.Always = func(w *reconciletest.World) error {
		*w.Outside().(*int) = secretsOf(w)
		return nil
	}
	c.Actors = []reconciletest.Actor{{
		Name:    "accountant, who waits until Always has seen the Secrets",
		Enabled: func(w *reconciletest.World) bool { return secretsOf(w) > *w.Outside().(*int) },
		Do:      func(*reconciletest.World) {},
	}}
	r := reconciletest.FailureOf(t, c, nil, "^B")
	g.Expect(r.Failure).To(gomega.BeEmpty())
	g.Expect(r.Runs).To(gomega.Equal(3 + 2))
}
