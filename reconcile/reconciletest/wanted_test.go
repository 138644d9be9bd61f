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
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// marking gives each child an owner, and the marks that mark puts on it.
func marking(mark func(*metav1.ObjectMeta)) func(env *reconciletest.Env) error {
	return breeding.Run(func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		child := breeding.Child(p)
		base := child.DeepCopy()
		for _, have := range b.ChildrenOf(p) {
			base = have
		}
		_, err := patch.Ensure(ctx, b.Client.CoreV1().Secrets, base, nil, func(edit *corev1.Secret) {
			edit.OwnerReferences = child.OwnerReferences
			mark(&edit.ObjectMeta)
		})
		return err
	})
}

// modest leaves fields of other clients alone.
func modest(m *metav1.ObjectMeta) {
	metav1.SetMetaDataLabel(m, "of", "parent")
	metav1.SetMetaDataAnnotation(m, "of", "parent")
}

// pairing acts at every second change. The careless variant waits for the
// second change without watching for the end of its context.
func pairing(careless bool) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		ctx := env.Context()
		factory := informers.NewSharedInformerFactory(env.Client(), 0)
		changes := make(chan struct{}, 100)
		handler := cache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { changes <- struct{}{} }}
		if _, err := factory.Core().V1().ConfigMaps().Informer().AddEventHandler(handler); err != nil {
			return err
		}
		factory.Start(ctx.Done())
		for ctx.Err() == nil {
			select {
			case <-changes:
				if careless {
					<-changes
					continue
				}
				select {
				case <-changes:
				case <-ctx.Done():
				}
			case <-ctx.Done():
			}
		}
		factory.Shutdown()
		return nil
	}
}

// twice returns a step that makes two changes without a rest in between.
func twice() reconciletest.Step {
	return reconciletest.Step{Name: "two changes", Do: func(ctx context.Context, w *reconciletest.World) error {
		for _, body := range []string{`{"data":{"x":"1"}}`, `{"data":{"x":"2"}}`} {
			if err := reconciletest.Patch("configmaps", "d/a", body).Do(ctx, w); err != nil {
				return err
			}
		}
		return nil
	}}
}

// reader reads, and passes the result on. The careless variant blocks if the
// receiver has ended.
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

// counting children by the events of a watch that starts again whenever it
// ends: objects deleted in between stay counted.
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

// heal creates the child if it is missing.
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

// widget reports the generation of a Widget, in its status and in the
// conditions; stale, it says so once and for all in its status, or in the
// condition Ready.
func widget(stale string) func(env *reconciletest.Env) error {
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
				if found && (stale == "status" || seen == o.GetGeneration()) {
					continue
				}
				ready := o.GetGeneration()
				if stale == "Ready" {
					ready = 1
				}
				body := fmt.Appendf(nil, `{"status":{"observedGeneration":%d,"conditions":[{"type":"Ready","status":"True",`+
					`"observedGeneration":%d}]}}`, o.GetGeneration(), ready)
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

// Bugs that need more than one usual deviation, and their correct twins, which
// are not accused. A finalizer whose clean-up reads a cache is in the zoo:
// "cleans up what its cache shows".
func TestWhatWasMissed(t *testing.T) {
	exhaustive(t)
	ofChildren := func(run func(env *reconciletest.Env) error) *reconciletest.Case {
		c := breeding.Case(nil)
		c.Run, c.Goal, c.Workload = run, nil, nil
		return c
	}
	reads := func(careless bool) *reconciletest.Case {
		c := ofChildren(reader(careless))
		c.Unwatched = []string{"configmaps"}
		return c
	}
	pairs := func(careless bool) *reconciletest.Case {
		c := ofChildren(pairing(careless))
		c.Workload = []reconciletest.Step{twice()}
		return c
	}
	twins := map[string]*reconciletest.Case{
		"it adds its label": ofChildren(marking(modest)), "it sets its fields": ofWebs(&webs{}),
		"it does not write": reads(false), "it does not wait": pairs(false), "it looks again": ofChildren(events(true)),
		"it writes all of its status": ofWidgets(widget("")),
	}
	o := &reconciletest.Options{Budget: breeding.Budget, Seeds: 1, KnownFindings: []string{"the program writes nothing"}}
	for name, twin := range twins { // once, although several mistakes may have the same twin
		t.Run("not if "+name, func(t *testing.T) {
			gomega.NewWithT(t).Expect(reconciletest.Search(t, twin, o).Failure).To(gomega.BeEmpty())
		})
	}
	const wipes = "it removes another client's additions to secrets d/a-child: "
	for _, b := range []struct {
		name, oracle, want string
		bug                *reconciletest.Case
	}{
		{
			"foreign labels are wiped", "lost", wipes + "a label",
			ofChildren(marking(func(m *metav1.ObjectMeta) { m.Labels = map[string]string{"of": "parent"} })),
		},
		{
			"foreign annotations are wiped", "lost", wipes + "an annotation",
			ofChildren(marking(func(m *metav1.ObjectMeta) { m.Annotations = map[string]string{"of": "parent"} })),
		},
		{
			"foreign finalizers are wiped", "lost", wipes + "a finalizer",
			ofChildren(marking(func(m *metav1.ObjectMeta) { m.Finalizers = nil })),
		},
		{
			"a foreign field of the spec is wiped", "lost", "additions to services d/a: spec.sessionAffinity",
			ofWebs(&webs{affinity: "ClientIP"}),
		},
		{
			"a deadlock at a stop without writes", "stop", "wanted_test.go:", reads(true),
		},
		{
			"a deadlock at a stop before an event", "stop", "wanted_test.go:", pairs(true),
		},
		{
			"drift while the watch ends", "state", "- secrets d/child = there", ofChildren(events(false)),
		},
		{
			"a status of an old generation", "status", "status.observedGeneration is 1", ofWidgets(widget("status")),
		},
		{
			"ready, of an old generation", "status", "its condition Ready is of generation 1, and the generation is 2",
			ofWidgets(widget("Ready")),
		},
	} {
		t.Run(b.name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			r := reconciletest.Search(t, b.bug, o)
			g.Expect(r.Failure).To(gomega.ContainSubstring(b.want))
			g.Expect(r.Oracle).To(gomega.Equal(b.oracle))
		})
	}
}

// A stop comes before each call and before each event.
func TestAStopMayHappenAnywhere(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(breeding.Right)
	c.Workload = nil
	plans, r := reconciletest.Tried(t, c, &reconciletest.Options{Budget: breeding.Budget, Seeds: 1})
	g.Expect(r.Failure).To(gomega.BeEmpty())
	for i := range r.Calls {
		g.Expect(plans).To(gomega.ContainElement(fmt.Sprintf("g%d", i+1)))
	}
	for i := range r.Deliveries {
		g.Expect(plans).To(gomega.ContainElement(fmt.Sprintf("h%d", i+1)))
	}
}
