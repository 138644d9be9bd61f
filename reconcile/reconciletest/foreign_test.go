package reconciletest_test

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// nowAndThen returns a case whose program calls fix for each parent every 20
// seconds.
func nowAndThen(fix func(context.Context, *reconciletest.Env, *corev1.ConfigMap) error) *reconciletest.Case {
	red := breeding.Parent("b")
	red.Data = map[string]string{"colour": "red"}
	return &reconciletest.Case{
		Objects: []runtime.Object{breeding.Parent("a"), red}, Unwatched: []string{"configmaps", "services", "widgets.example.com"},
		Resources: []metav1.APIResource{{
			Group: widgets.Group, Version: widgets.Version, Name: widgets.Resource, Kind: "Widget", Namespaced: true,
		}},
		Run: func(env *reconciletest.Env) error {
			ctx := env.Context()
			for ctx.Err() == nil {
				parents, err := env.Client().CoreV1().ConfigMaps("d").List(ctx, metav1.ListOptions{})
				if err != nil {
					parents = &corev1.ConfigMapList{}
				}
				for _, p := range parents.Items {
					_ = fix(ctx, env, &p)
				}
				select {
				case <-ctx.Done():
				case <-time.After(20 * time.Second):
				}
			}
			return nil
		},
	}
}

// exposing keeps a Service with a port. The buggy one makes it again if a port
// has any other field than its own.
func exposing(exact bool) func(context.Context, *reconciletest.Env, *corev1.ConfigMap) error {
	return func(ctx context.Context, env *reconciletest.Env, p *corev1.ConfigMap) error {
		client := env.Client().CoreV1().Services("d")
		live, err := client.Get(ctx, p.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = client.Create(ctx, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: p.Name},
				Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
			}, metav1.CreateOptions{})
			return err
		case err == nil && exact && live.Spec.Ports[0].AppProtocol != nil:
			return client.Delete(ctx, p.Name, metav1.DeleteOptions{})
		}
		return err
	}
}

// widgeting keeps the size of a Widget. The buggy one writes the whole spec.
func widgeting(wipes bool) func(context.Context, *reconciletest.Env, *corev1.ConfigMap) error {
	return func(ctx context.Context, env *reconciletest.Env, p *corev1.ConfigMap) error {
		client := dynamic.NewForConfigOrDie(env.Config()).Resource(widgets).Namespace("d")
		spec := map[string]any{"size": int64(1)}
		if colour := p.Data["colour"]; colour != "" {
			spec["colour"] = colour
		}
		live, err := client.Get(ctx, p.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = client.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": p.Name}, "spec": spec,
			}}, metav1.CreateOptions{})
			return err
		case err != nil:
			return err
		}
		have, _ := live.Object["spec"].(map[string]any)
		if have["size"] == spec["size"] && (spec["colour"] == nil || have["colour"] == spec["colour"]) {
			return nil
		}
		if !wipes {
			for name, v := range have {
				if spec[name] == nil {
					spec[name] = v
				}
			}
		}
		live.Object["spec"] = spec
		_, err = client.Update(ctx, live, metav1.UpdateOptions{})
		return err
	}
}

func TestAFieldOfAnotherClientIsNotRemoved(t *testing.T) {
	for name, row := range map[string]struct {
		c                   *reconciletest.Case
		match, oracle, want string // the finding; empty if there must be no finding
	}{
		"in the elements of a list":      {nowAndThen(exposing(true)), "^M", "rest", "a webhook adds"},
		"in a list, the twin":            {nowAndThen(exposing(false)), "^[mM]", "", "^$"},
		"of a custom resource":           {nowAndThen(widgeting(true)), "^m", "lost", `widgets.example.com d/a: spec\.colour`},
		"of a custom resource, the twin": {nowAndThen(widgeting(false)), "^[mM]", "", "^$"},
		"that the case ignores": {
			ignoring(nowAndThen(widgeting(true)), "widgets.example.com spec.colour"), "^m", "", "^$",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			r := reconciletest.FailureOf(t, row.c, &reconciletest.Options{Steps: 2000}, row.match)
			g.Expect(r.Runs).To(gomega.BeNumerically(">", 3), "a deviation was tried")
			g.Expect(r.Oracle).To(gomega.Equal(row.oracle), r.Failure)
			g.Expect(r.Failure).To(gomega.MatchRegexp(row.want))
		})
	}
}

func ignoring(c *reconciletest.Case, field string) *reconciletest.Case {
	c.Ignore = append(c.Ignore, field)
	return c
}
