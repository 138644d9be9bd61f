package reconciletest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/homeostat/homeostat/internal/proof/breeding"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// proud thinks that all labels of a child are its own.
func proud(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	child := breeding.Child(p)
	base := child.DeepCopy()
	for _, have := range b.ChildrenOf(p) {
		base = have
	}
	_, err := patch.Ensure(ctx, b.Client.CoreV1().Secrets, base, nil, func(edit *corev1.Secret) {
		edit.OwnerReferences, edit.Labels = child.OwnerReferences, map[string]string{"of": p.Name}
	})
	return err
}

// modest is proud of its own labels alone.
func modest(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	child := breeding.Child(p)
	base := child.DeepCopy()
	for _, have := range b.ChildrenOf(p) {
		base = have
	}
	_, err := patch.Ensure(ctx, b.Client.CoreV1().Secrets, base, nil, func(edit *corev1.Secret) {
		edit.OwnerReferences = child.OwnerReferences
		metav1.SetMetaDataLabel(&edit.ObjectMeta, "of", p.Name)
	})
	return err
}

// reader reads, and hands over the result; careless, it does not think of a receiver that has left.
func reader(careless bool) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		ctx := env.Context()
		results, ended := make(chan error), make(chan struct{})
		go func() {
			defer close(ended)
			_, err := env.Client().CoreV1().ConfigMaps("d").List(ctx, metav1.ListOptions{})
			if careless {
				results <- err
				return
			}
			select {
			case results <- err:
			case <-ctx.Done():
			}
		}()
		select {
		case <-results:
			<-ctx.Done()
		case <-ctx.Done():
		}
		<-ended
		return nil
	}
}

// counting children by the events of a watch that begins anew whenever it ends: what is deleted meanwhile stays counted.
func events(relist bool) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		ctx, client := env.Context(), env.Client()
		known := map[string]bool{}
		for ctx.Err() == nil {
			if relist {
				clear(known)
			}
			if err := heal(ctx, env, known); err != nil {
				pause(ctx)
				continue
			}
			list, err := client.CoreV1().Secrets("d").List(ctx, metav1.ListOptions{})
			if err != nil {
				pause(ctx)
				continue
			}
			for _, s := range list.Items {
				known[s.Name] = true
			}
			if relist {
				if err := heal(ctx, env, known); err != nil {
					pause(ctx)
					continue
				}
			}
			w, err := client.CoreV1().Secrets("d").Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
			if err != nil {
				pause(ctx)
				continue
			}
			follow(ctx, env, w, known)
		}
		return nil
	}
}

func follow(ctx context.Context, env *reconciletest.Env, w watch.Interface, known map[string]bool) {
	defer w.Stop()
	for e := range w.ResultChan() {
		s, ok := e.Object.(*corev1.Secret)
		if !ok {
			return
		}
		if known[s.Name] = true; e.Type == watch.Deleted {
			delete(known, s.Name)
		}
		for heal(ctx, env, known) != nil && ctx.Err() == nil {
			pause(ctx)
		}
	}
}

// heal makes the one child that there has to be.
func heal(ctx context.Context, env *reconciletest.Env, known map[string]bool) error {
	if known["child"] {
		return nil
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "child"}}
	_, err := env.Client().CoreV1().Secrets("d").Create(ctx, s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// widget reports the generation of a Widget; stale: only until it is ready.
func widget(stale bool) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		ctx := env.Context()
		client := dynamic.NewForConfigOrDie(env.Config()).Resource(widgets).Namespace("d")
		for ctx.Err() == nil {
			w, err := client.Watch(ctx, metav1.ListOptions{})
			if err != nil {
				pause(ctx)
				continue
			}
			for e := range w.ResultChan() {
				o, ok := e.Object.(*unstructured.Unstructured)
				if !ok || e.Type == watch.Deleted {
					continue
				}
				seen, found, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
				if found && (stale || seen == o.GetGeneration()) {
					continue
				}
				body := fmt.Appendf(nil, `{"status":{"observedGeneration":%d,"conditions":[{"type":"Ready","status":"True",`+
					`"observedGeneration":%[1]d}]}}`, o.GetGeneration())
				for ctx.Err() == nil {
					_, err := client.Patch(ctx, o.GetName(), types.MergePatchType, body, metav1.PatchOptions{}, "status")
					if err == nil || apierrors.IsNotFound(err) {
						break
					}
					pause(ctx)
				}
			}
			w.Stop()
		}
		return nil
	}
}

func ofWidgets(run func(env *reconciletest.Env) error) *reconciletest.Case {
	return &reconciletest.Case{
		Resources: []metav1.APIResource{{
			Group: widgets.Group, Version: widgets.Version, Name: widgets.Resource, Kind: "Widget", Namespaced: true,
		}},
		Objects: []runtime.Object{&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget", "spec": map[string]any{"size": int64(1)},
			"metadata": map[string]any{"namespace": "d", "name": "w"},
		}}},
		Run:      run,
		Workload: []reconciletest.Step{reconciletest.Patch("widgets.example.com", "d/w", `{"spec":{"size":2}}`)},
	}
}

// Bugs that need more than one usual deviation, and their twins, which are not accused.
func TestWhatWasMissed(t *testing.T) {
	ofChildren := func(run func(env *reconciletest.Env) error) *reconciletest.Case {
		c := breeding.Case(nil)
		c.Run, c.Goal, c.Workload = run, nil, nil
		return c
	}
	reading := func(careless bool) *reconciletest.Case {
		c := ofChildren(reader(careless))
		c.Goal, c.Unwatched = anything, []string{"configmaps"}
		return c
	}
	for _, b := range []struct {
		name, oracle, want string
		bug, twin          *reconciletest.Case
	}{
		{
			"foreign labels are wiped", "lost", "it wipes what another client has added to secrets d/a-child: a label",
			ofChildren(breeding.Run(proud)), ofChildren(breeding.Run(modest)),
		},
		{
			"a deadlock at a stop without writes", "stop", "wanted_test.go:", reading(true), reading(false),
		},
		{
			"drift while the watch ends", "state", "- secrets d/child = there", ofChildren(events(false)), ofChildren(events(true)),
		},
		{"a status of an old generation", "status", "status.observedGeneration is 1", ofWidgets(widget(true)), ofWidgets(widget(false))},
	} {
		t.Run(b.name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			o := &reconciletest.Options{Budget: breeding.Budget, Seeds: 1, Known: []string{"the Goal holds without the program"}}
			r := reconciletest.Search(t, b.bug, o)
			g.Expect(r.Failure).To(gomega.ContainSubstring(b.want))
			g.Expect(r.Oracle).To(gomega.Equal(b.oracle))
			g.Expect(reconciletest.Search(t, b.twin, o).Failure).To(gomega.BeEmpty())
		})
	}
}
