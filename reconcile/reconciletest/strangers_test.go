package reconciletest_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	broadcast "k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// sized keeps the size of each parent in its child, by updates of the cached
// object, and takes the child away while there is no size. A conflict in a call
// with the verb swallowed is not treated as an error, because the cache is late
// and an event will follow.
func sized(swallowed string) breeding.Breed {
	leave := func(verb string, err error) error {
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) && verb == swallowed {
			return nil
		}
		return err
	}
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		secrets, children := b.Client.CoreV1().Secrets(p.Namespace), b.ChildrenOf(p)
		size := []byte(p.Data["x"])
		switch {
		case len(children) == 0 && len(size) > 0:
			child := breeding.Child(p)
			child.Data = map[string][]byte{"size": size}
			return leave("create", b.Create(ctx, child))
		case len(children) == 0 || string(children[0].Data["size"]) == string(size):
			return nil
		case len(size) == 0:
			uid := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(children[0].UID))}
			return leave("delete", secrets.Delete(ctx, children[0].Name, uid))
		}
		child := children[0].DeepCopy()
		child.Data = map[string][]byte{"size": size}
		_, err := secrets.Update(ctx, child, metav1.UpdateOptions{})
		return leave("update", err)
	}
}

// A conflict of an update, or of the deletion of a certain object, means that
// another client was faster: that event leads to the next attempt. A conflict
// of a create is due to a quota, and no event follows it.
func TestAConflictMayBeLeftToTheEventThatFollows(t *testing.T) {
	exhaustive(t)
	for swallowed, want := range map[string]string{"update": "", "delete": "", "create": "409 instead of call"} {
		t.Run(swallowed, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(sized(swallowed))
			c.Goal, c.Workload = nil, []reconciletest.Step{
				reconciletest.Patch("configmaps", "d/a", `{"data":{"x":"1"}}`),
				reconciletest.Patch("configmaps", "d/a", `{"data":{"x":"2"}}`),
				reconciletest.Patch("configmaps", "d/a", `{"data":{"x":null}}`),
			}
			r := reconciletest.Search(t, c, &reconciletest.Options{
				Budget: breeding.Budget, Seeds: 1, KnownFindings: []string{"taken for its deletion"},
			})
			g.Expect(r.Failure).To(gomega.HavePrefix(want))
			failed := r.Failure != ""
			g.Expect(failed).To(gomega.Equal(want != ""))
		})
	}
}

// terms starts again with each parent after the first one, like a replica that
// leads for the second time: with a new informer. list may belong to an
// informer that has ended.
func terms(list func(cache.SharedIndexInformer) func() []any) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		for env.Context().Err() == nil {
			ctx, end := context.WithCancel(env.Context())
			factory := informers.NewSharedInformerFactory(env.Client(), 0)
			parents := factory.Core().V1().ConfigMaps().Informer()
			handler := cache.ResourceEventHandlerDetailedFuncs{AddFunc: func(_ any, first bool) {
				if !first {
					end()
				}
			}}
			if _, err := parents.AddEventHandler(handler); err != nil {
				end()
				return err
			}
			env.Cache("configmaps", list(parents))
			factory.Start(ctx.Done())
			<-ctx.Done()
			factory.Shutdown()
			end()
		}
		return nil
	}
}

// A cache that has ended before its process is not checked.
func TestACacheMayEndBeforeItsProcess(t *testing.T) {
	for name, c := range map[string]struct {
		list func(cache.SharedIndexInformer) func() []any
		want string
	}{
		"it says so": {func(i cache.SharedIndexInformer) func() []any {
			return func() []any {
				if i.IsStopped() {
					return nil
				}
				return i.GetStore().List()
			}
		}, ""},
		"it does not": {func(i cache.SharedIndexInformer) func() []any { return i.GetStore().List }, "cache"},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			r := reconciletest.Search(t, &reconciletest.Case{
				Objects: []runtime.Object{breeding.Parent("a")}, Run: terms(c.list),
				Workload: []reconciletest.Step{
					reconciletest.Create(breeding.Parent("b")), reconciletest.Patch("configmaps", "d/a", `{"data":{"x":"1"}}`),
				},
			}, &reconciletest.Options{KnownFindings: []string{"the program writes nothing"}, Seeds: 1, Budget: breeding.Budget})
			g.Expect(r.Oracle).To(gomega.Equal(c.want), "%s", r.Failure)
		})
	}
}

// secretive generates a token once, and maintains a size beside it.
func secretive(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	child := breeding.Child(p)
	child.Data = map[string][]byte{"a-token": []byte(rand.Text()), "size": []byte(p.Data["x"])}
	children := b.ChildrenOf(p)
	if len(children) == 0 {
		return b.Create(ctx, child)
	}
	if string(children[0].Data["size"]) == p.Data["x"] {
		return nil
	}
	child = children[0].DeepCopy()
	child.Data["size"] = []byte(p.Data["x"])
	_, err := b.Client.CoreV1().Secrets(p.Namespace).Update(ctx, child, metav1.UpdateOptions{})
	return err
}

// Ignored fields need not be restored: another value is edited.
func TestIgnoredFieldsAreNotEdited(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(secretive)
	c.Objects[0].(*corev1.ConfigMap).Data = map[string]string{"x": "7"}
	c.Workload, c.Goal, c.Ignore = nil, nil, []string{"secrets data.a-token"}
	lines, found := reconciletest.TraceOf(t, c, nil, "e1")
	g.Expect(found).To(gomega.BeEmpty())
	g.Expect(lines).To(gomega.ContainElement(gomega.HavePrefix(`others    patch secrets d/a-child {"data":{"size":`)))
}

// widgeter makes a Widget of its own, and does not look at it again.
func widgeter(env *reconciletest.Env) error {
	client := dynamic.NewForConfigOrDie(env.Config()).Resource(widgets).Namespace("d")
	w := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "made"},
		"spec": map[string]any{"kind": map[string]any{}, "size": int64(1)},
	}}
	for env.Context().Err() == nil {
		if _, err := client.Create(env.Context(), w, metav1.CreateOptions{}); err == nil || apierrors.IsAlreadyExists(err) {
			break
		}
		pause(env.Context())
	}
	<-env.Context().Done()
	return nil
}

// A custom resource is edited whether the case gives its name or its
// definition.
func TestACustomResourceIsEdited(t *testing.T) {
	for name, change := range map[string]func(c *reconciletest.Case){
		"a name": func(*reconciletest.Case) {},
		"a definition": func(c *reconciletest.Case) {
			c.Resources, c.Definitions = nil, apisim.Definitions{{
				Group: widgets.Group, Version: widgets.Version, Resource: widgets.Resource, Kind: "Widget", Namespaced: true,
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := ofWidgets(widgeter)
			c.Workload = nil
			change(c)
			o := &reconciletest.Options{KnownFindings: []string{"does not watch them"}}
			_, found := reconciletest.TraceOf(t, c, o, "e1")
			g.Expect(found).To(gomega.ContainSubstring("+ widgets.example.com d/made: spec.size = 2"))
		})
	}
}

// The finding says that the program writes by the clock, and not that it wakes
// itself.
func TestWritesByTheClockAreNoHotLoop(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(nil)
	c.Run, c.Goal, c.Workload = ticking(30*time.Second), nil, nil
	r := reconciletest.Search(t, c, &reconciletest.Options{Steps: 1000})
	g.Expect(r.Oracle).To(gomega.Equal("rest"))
	g.Expect(r.Failure).To(gomega.MatchRegexp(`never comes to rest: 1000 steps in \d+h\d+m0s, now and then`))
	g.Expect(r.Failure).To(gomega.ContainSubstring("something writes by the clock"))
	g.Expect(r.Failure).To(gomega.ContainSubstring("name the field in Case.Ignore"))
}

// announcing records the same event at its start and then every six minutes,
// when client-go's broadcaster, which holds a lock meanwhile, looks for series
// that have ended.
func announcing(env *reconciletest.Env) error {
	ctx := env.Context()
	if _, err := env.Client().CoreV1().ConfigMaps("d").Get(ctx, "a", metav1.GetOptions{}); err != nil {
		return err
	}
	broadcaster := broadcast.NewBroadcaster(&broadcast.EventSinkImpl{Interface: env.Client().EventsV1()})
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	recorder := broadcaster.NewRecorder(scheme.Scheme, "announcer")
	ticker := time.NewTicker(6 * time.Minute)
	defer ticker.Stop()
	for {
		for _, name := range []string{"a", "a", "b"} {
			recorder.Eventf(breeding.Parent(name), nil, corev1.EventTypeNormal, "Announced", "Announce", "still here")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func TestSeriesOfEventsAreNoHang(t *testing.T) {
	g := gomega.NewWithT(t)
	r := reconciletest.Search(t, &reconciletest.Case{
		Objects: []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, breeding.Parent("a")},
		Run:     announcing, Unwatched: []string{"configmaps"},
	}, &reconciletest.Options{KnownFindings: []string{"the program writes nothing"}, Seeds: 1, Budget: breeding.Budget})
	g.Expect(r.Failure).To(gomega.BeEmpty())
	g.Expect(r.Rules).To(gomega.ContainElement(gomega.HaveField("Verbs", gomega.ContainElement("patch"))))
}
