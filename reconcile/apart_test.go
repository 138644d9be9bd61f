package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// tenants is a fixture whose informer watches the namespaces a and b, of which
// some are forbidden.
type tenants struct {
	*fixture
	forbidden map[string]*atomic.Bool
}

func inTenants(t *testing.T, o informer.Options, f func(w *tenants)) {
	t.Helper()
	inFixture(t, func(in *fixture) {
		w := &tenants{in, map[string]*atomic.Bool{"a": {}, "b": {}, "c": {}}}
		w.client.PrependReactor("list", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
			namespace := action.GetNamespace()
			if w.forbidden[namespace].Load() {
				return true, nil, apierrors.NewForbidden(corev1.Resource("configmaps"), "", errors.New(namespace))
			}
			return false, nil, nil
		})
		o.Namespaces = []string{"a", "b"}
		w.in = informer.ForNamespaces(w.client.CoreV1().ConfigMaps, &o)
		f(w)
	})
}

func (w *tenants) put(namespace, name string, labels ...string) {
	w.t.Helper()
	made := &configMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{}}}
	for _, label := range labels {
		made.Labels[label] = "yes"
	}
	maps := w.client.CoreV1().ConfigMaps(namespace)
	_, err := maps.Create(w.t.Context(), made, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = maps.Update(w.t.Context(), made, metav1.UpdateOptions{})
	}
	w.Expect(err).NotTo(HaveOccurred())
}

// watcher records the key of each reconcile, with "-" if there is no object.
func (w *tenants) watcher() reconcFn {
	return func(_ context.Context, r request) (reconcile.Result, error) {
		what := r.Key.String()
		if _, ok := r.Object(); !ok {
			what = "-" + what
		}
		w.ran(what)
		return nothing, nil
	}
}

func namesOf(keys ...reconcile.Key) names.Func {
	return func(context.Context) (all []names.Name, _ error) {
		for _, key := range keys {
			all = append(all, names.Name{Key: key})
		}
		return all, nil
	}
}

func keyIn(namespace, name string) reconcile.Key {
	return reconcile.Key{Namespace: namespace, Name: name}
}

func TestAMissingNamespaceStopsOnlyItself(t *testing.T) {
	for _, independent := range []bool{true, false} {
		t.Run(fmt.Sprint(independent), func(t *testing.T) {
			inTenants(t, informer.Options{Independent: independent}, func(w *tenants) {
				w.put("a", "1")
				w.put("b", "1")
				w.forbidden["b"].Store(true)
				c := w.made(&reconcile.Options{
					Known: namesOf(keyIn("a", "1"), keyIn("a", "gone"), keyIn("b", "1"), keyIn("b", "gone")),
					Sweep: &names.Options{Period: time.Minute, MaxCount: 10},
				}, w.watcher())
				stop := w.startRun(c.Run)
				pass(time.Hour)
				if !independent {
					w.Expect(w.reconciled()).To(BeEmpty(), "a reconcile may read both namespaces")
					w.Expect(c.Informers()[0].Problems).To(BeEmpty())
					w.Expect(stop()).To(MatchError(ContainSubstring(`namespace "b"`)))
					return
				}
				c.Enqueue(keyIn("b", "1"), keyIn("b", "other"))
				pass(time.Hour)
				ran := w.reconciled()
				w.Expect(ran).To(ContainElement("a/1"))
				w.Expect(ran).To(HaveEach(BeElementOf("a/1", "-a/gone")), "no sweep and no deletion is concluded from what is forbidden")
				w.Expect(c.Phase()).To(Equal(inspect.Working))
				status := c.Informers()[0]
				w.Expect(status.Partly).To(BeTrue())
				w.Expect(status.Problems).To(HaveLen(1))
				w.Expect(status.Problems[0].String()).To(And(ContainSubstring(`namespace "b"`), ContainSubstring("forbidden")))

				w.forbidden["b"].Store(false)
				pass(2 * time.Minute)
				w.Expect(slices.Compact(slices.Sorted(slices.Values(w.reconciled())))).To(
					ConsistOf("b/1", "-b/other", "-b/gone", "-a/gone"), "an hour later it is taken up, at once, with its sweep")
				w.Expect(c.Informers()[0].Problems).To(BeEmpty())
				w.Expect(stop()).To(Succeed())
			})
		})
	}
}

// The permission for a namespace ends after the sync. Meanwhile the namespace
// is deleted and made again, with objects of other UIDs.
func TestNothingIsConcludedFromAPermissionThatEndsAfterTheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(HaveOccurred())
		var forbidden atomic.Bool
		sim.Deny(func(c apisim.Call) error {
			if forbidden.Load() && c.Client == "c" && c.Namespace == "b" {
				return apierrors.NewForbidden(corev1.Resource("configmaps"), "", errors.New("no RoleBinding"))
			}
			return nil
		})
		admin := kubernetes.NewForConfigOrDie(sim.Admin()).CoreV1().ConfigMaps("b")
		for _, key := range []reconcile.Key{keyIn("a", "1"), keyIn("b", "1"), keyIn("b", "2")} {
			g.Expect(sim.Load(&configMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})).To(Succeed())
		}
		in := informer.ForNamespaces(kubernetes.NewForConfigOrDie(sim.Config("c")).CoreV1().ConfigMaps,
			&informer.Options{Namespaces: []string{"a", "b"}, Independent: true})
		var ran []string
		c, err := reconcile.New("test", in, reconcile.Func[*configMap](
			func(_ context.Context, r request) (reconcile.Result, error) {
				object, ok := r.Object()
				ran = append(ran, fmt.Sprintf("%s %t %t", r.Key, ok && object.Data["is"] == "new", ok))
				return nothing, nil
			}), &reconcile.Options{
			Workers: 1, // ran has no lock
			Known:   namesOf(keyIn("a", "1"), keyIn("b", "1"), keyIn("b", "2")),
			Sweep:   &names.Options{Period: time.Minute, MaxCount: 10},
		})
		g.Expect(err).NotTo(HaveOccurred())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		pass(time.Minute)
		g.Expect(ran).To(ConsistOf("a/1 false true", "b/1 false true", "b/2 false true"))
		ran = nil

		forbidden.Store(true)
		sim.DropWatches("", "")
		pass(time.Minute)
		for _, name := range []string{"1", "2"} {
			g.Expect(admin.Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		}
		for _, name := range []string{"1", "3"} {
			made := &configMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"is": "new"}}
			_, err := admin.Create(ctx, made, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
		}
		pass(time.Hour)
		g.Expect(ran).NotTo(ContainElement(HavePrefix("b/")), "nothing is concluded")
		g.Expect(in.IsDeleted(ctx, types.NamespacedName{Namespace: "b", Name: "2"})).To(BeFalse())
		problems := c.Informers()[0].Problems
		g.Expect(problems).To(HaveLen(1))
		g.Expect(problems[0].String()).To(ContainSubstring(`namespace "b"`))

		forbidden.Store(false)
		pass(10 * time.Minute)
		g.Expect(ran).To(ContainElements("b/1 true true", "b/2 false false", "b/3 true true"))
		g.Expect(ran).NotTo(ContainElement(HavePrefix("b/1 false")), "it was made again, but was never missing")
		g.Expect(c.Informers()[0].Problems).To(BeEmpty())
		stop()
		g.Expect(<-ended).To(Succeed())
	})
}

func TestAControllerWaitsIfAllItsNamespacesAreForbidden(t *testing.T) {
	inTenants(t, informer.Options{Independent: true}, func(w *tenants) {
		w.forbidden["a"].Store(true)
		w.forbidden["b"].Store(true)
		c := w.made(nil, w.watcher())
		stop := w.startRun(c.Run)
		pass(time.Hour)
		w.Expect(c.Phase()).To(Equal(inspect.Syncing))
		w.Expect(c.Informers()[0].Partly).To(BeFalse())
		w.forbidden["a"].Store(false)
		pass(2 * time.Minute)
		w.Expect(c.Phase()).To(Equal(inspect.Working))
		w.Expect(stop()).To(Succeed())
	})
}

// Keys of a namespace wait for all caches of the controller that watch it.
func TestAKeyWaitsForEachCacheOfItsNamespace(t *testing.T) {
	inTenants(t, informer.Options{Independent: true}, func(w *tenants) {
		w.put("a", "1")
		w.put("b", "1")
		var hidden atomic.Bool
		hidden.Store(true)
		w.client.PrependReactor("list", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
			forbidden := apierrors.NewForbidden(corev1.Resource("secrets"), "", errors.New("b"))
			return action.GetNamespace() == "b" && hidden.Load(), nil, forbidden
		})
		secrets := informer.ForNamespaces(w.client.CoreV1().Secrets,
			&informer.Options{Namespaces: []string{"a", "b"}, Independent: true})
		stop := w.start(&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(secrets)}}, w.watcher())
		pass(time.Hour)
		w.Expect(w.reconciled()).To(Equal([]string{"a/1"}))
		hidden.Store(false)
		pass(2 * time.Minute)
		w.Expect(w.reconciled()).To(Equal([]string{"b/1"}))
		w.Expect(stop()).To(Succeed())
	})
}

func TestSetNamespacesTakesUpAMissingNamespaceLater(t *testing.T) {
	inTenants(t, informer.Options{Independent: true}, func(w *tenants) {
		w.put("a", "1")
		w.put("c", "1")
		w.forbidden["c"].Store(true)
		c := w.made(nil, w.watcher())
		stop := w.startRun(c.Run)
		w.Expect(w.reconciled()).To(Equal([]string{"a/1"}))
		w.Expect(w.in.SetNamespaces("a", "c")).To(Succeed())
		c.Enqueue(keyIn("c", "none"))
		w.put("a", "2")
		pass(time.Hour)
		w.Expect(w.reconciled()).To(Equal([]string{"a/2"}))
		w.Expect(c.Informers()[0].Partly).To(BeTrue())
		w.forbidden["c"].Store(false)
		pass(2 * time.Minute)
		w.Expect(w.reconciled()).To(ConsistOf("c/1", "-c/none"))
		w.Expect(stop()).To(Succeed())
	})
}

func TestObjectsOfANamespaceThatSetNamespacesLeavesOutAreNotDeleted(t *testing.T) {
	inTenants(t, informer.Options{}, func(w *tenants) {
		for n := range 20 {
			w.put("a", fmt.Sprint(n))
			w.put("b", fmt.Sprint(n))
		}
		c := w.made(&reconcile.Options{Workers: 1}, w.watcher())
		stop := w.startRun(c.Run)
		w.Expect(w.reconciled()).To(HaveLen(40))
		w.Expect(w.in.SetNamespaces("a")).To(Succeed())
		pass(time.Hour)
		w.Expect(w.reconciled()).To(BeEmpty(), "they live")
		w.Expect(w.in.SetNamespaces("a", "b")).To(Succeed())
		w.Expect(w.reconciled()).To(And(HaveLen(20), HaveEach(HavePrefix("b/"))), "each with its object")
		w.Expect(w.client.CoreV1().ConfigMaps("b").Delete(w.t.Context(), "1", metav1.DeleteOptions{})).To(Succeed())
		w.Expect(w.reconciled()).To(Equal([]string{"-b/1"}))
		w.Expect(stop()).To(Succeed())
	})
}

func TestAKeyOfAForeignNamespaceIsNotReconciled(t *testing.T) {
	inTenants(t, informer.Options{}, func(w *tenants) {
		w.put("c", "lives")
		w.put("a", "1")
		secrets := informer.For(w.client.CoreV1().Secrets("a"), nil)
		mapped := reconcile.Mapped(secrets, func(context.Context, *corev1.Secret, *corev1.Secret) ([]reconcile.Key, error) {
			return []reconcile.Key{keyIn("c", "lives"), {Name: "of the caller's own"}}, nil
		})
		c := w.made(&reconcile.Options{Triggers: []reconcile.Trigger{mapped}}, w.watcher())
		stop := w.startRun(c.Run)
		w.Expect(w.reconciled()).To(Equal([]string{"a/1"}))
		c.Enqueue(keyIn("c", "lives"), keyIn("a", "none"))
		w.Expect(w.reconciled()).To(Equal([]string{"-a/none"}), "a foreign key is none that was deleted")
		w.Expect(w.logged()).To(ContainElement(And(ContainSubstring("not reconciling a key"), ContainSubstring("lives"))))
		_, err := w.client.CoreV1().Secrets("a").Create(w.t.Context(), secretNamed("s"), metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.reconciled()).To(Equal([]string{"-/of the caller's own"}), "a key without a namespace is no object")
		w.Expect(c.Status(10).Keys).To(BeEmpty())
		w.Expect(stop()).To(Succeed())
	})
}

func secretNamed(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
}

func TestAnObjectThatASelectorLeavesOutIsNotDeleted(t *testing.T) {
	inTenants(t, informer.Options{LabelSelector: "mine"}, func(w *tenants) {
		w.put("a", "mine", "mine")
		w.put("a", "lives")
		c := w.made(&reconcile.Options{Known: namesOf(keyIn("a", "lives"), keyIn("a", "gone"), keyIn("a", "mine"))}, w.watcher())
		stop := w.startRun(c.Run)
		w.Expect(w.reconciled()).To(ConsistOf("a/mine", "-a/gone"), "a name of the sweep")
		c.Enqueue(keyIn("a", "lives"))
		w.Expect(w.reconciled()).To(BeEmpty())
		w.Expect(w.client.CoreV1().ConfigMaps("a").Delete(w.t.Context(), "mine", metav1.DeleteOptions{})).To(Succeed())
		w.Expect(w.reconciled()).To(Equal([]string{"-a/mine"}), "this one is")
		w.Expect(stop()).To(Succeed())
	})
}

// Names of Roles may have all characters except "/" and "%".
func TestAnObjectWhoseNameReadsLikeASelectorIsNotDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(HaveOccurred())
		var mu sync.Mutex
		var ran []string // guarded by mu
		c, err := reconcile.New("test",
			informer.For(kubernetes.NewForConfigOrDie(sim.Config("c")).RbacV1().Roles("d"), &informer.Options{LabelSelector: "mine"}),
			reconcile.Func[*rbacv1.Role](func(_ context.Context, r reconcile.Request[*rbacv1.Role]) (reconcile.Result, error) {
				mu.Lock()
				defer mu.Unlock()
				ran = append(ran, r.Key.Name)
				return nothing, nil
			}), nil)
		g.Expect(err).NotTo(HaveOccurred())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		pass(time.Second)
		for _, name := range []string{"a,metadata.name!=b", "a=b", `a\b`, "a,b"} {
			g.Expect(sim.Load(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name}})).To(Succeed())
			c.Enqueue(keyIn("d", name), keyIn("d", "no"+name))
		}
		pass(time.Minute)
		mu.Lock()
		g.Expect(ran).To(ConsistOf("noa,metadata.name!=b", "noa=b", `noa\b`, "noa,b"))
		mu.Unlock()
		g.Expect(c.Status(10).Keys).To(BeEmpty())
		stop()
		g.Expect(<-ended).To(Succeed())
	})
}

func TestAnObjectThatLeavesTheSelectorIsNotDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(HaveOccurred())
		maps := kubernetes.NewForConfigOrDie(sim.Config("c")).CoreV1().ConfigMaps("d")
		made := configMapNamed("a")
		made.Labels = map[string]string{"mine": "yes"}
		_, err = maps.Create(t.Context(), made, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		var ran []bool
		c, err := reconcile.New("test", informer.For(maps, &informer.Options{LabelSelector: "mine"}),
			reconcile.Func[*configMap](func(_ context.Context, r request) (reconcile.Result, error) {
				_, ok := r.Object()
				ran = append(ran, ok)
				return nothing, nil
			}), nil)
		g.Expect(err).NotTo(HaveOccurred())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		pass(time.Second)
		_, err = maps.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":null}}`), metav1.PatchOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		pass(time.Second)
		g.Expect(ran).To(Equal([]bool{true}), "it exists")
		g.Expect(maps.Delete(ctx, "a", metav1.DeleteOptions{})).To(Succeed())
		c.Enqueue(key("a"))
		pass(time.Second)
		g.Expect(ran).To(Equal([]bool{true, false}))
		stop()
		g.Expect(<-ended).To(Succeed())
	})
}

func TestKnownNeedsAClientThatShowsItsNamespaces(t *testing.T) {
	inFixture(t, func(w *fixture) {
		opaqueMaps := func(namespace string) handwritten { return handwritten{w.client.CoreV1().ConfigMaps(namespace)} }
		o := &reconcile.Options{Known: knownKeys("a")}
		_, err := reconcile.New("test", informer.For(opaqueMaps("d"), nil), reconcile.Func[*configMap](w.recorder()), o)
		w.Expect(err).To(MatchError(ContainSubstring("reconcile.Options.Known is set: must be nil if the client")))
		stated := informer.ForNamespaces(opaqueMaps, &informer.Options{Namespaces: []string{"d"}})
		_, err = reconcile.New("test", stated, reconcile.Func[*configMap](w.recorder()), o)
		w.Expect(err).NotTo(HaveOccurred())
	})
}

// handwritten is a client of the caller's own that shows nothing.
type handwritten struct {
	to typedcorev1.ConfigMapInterface
}

func (h handwritten) Get(ctx context.Context, name string, o metav1.GetOptions) (*configMap, error) {
	return h.to.Get(ctx, name, o)
}

func (h handwritten) List(ctx context.Context, o metav1.ListOptions) (*corev1.ConfigMapList, error) {
	return h.to.List(ctx, o)
}

func (h handwritten) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return h.to.Watch(ctx, o)
}

func TestWhatAnUntypedClientDoesNotReadIsNeitherDeletedNorWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(HaveOccurred())
		through, err := cluster.New(sim.Config("c"), nil)
		g.Expect(err).NotTo(HaveOccurred())
		core := through.Client().CoreV1()
		dyn := through.Dynamic().Resource(corev1.SchemeGroupVersion.WithResource("configmaps"))
		for _, namespace := range []string{"d", "e"} {
			_, err := core.ConfigMaps(namespace).Create(t.Context(),
				&configMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
		}
		var ran []string
		writes := 0
		c, err := reconcile.New("test", informer.For(informer.Untyped(dyn.Namespace("d")), nil),
			reconcile.Func[*unstructured.Unstructured](func(
				ctx context.Context, r reconcile.Request[*unstructured.Unstructured],
			) (reconcile.Result, error) {
				_, ok := r.Object()
				ran = append(ran, fmt.Sprint(r.Key, ok))
				if writes++; writes > 5 {
					return nothing, nil
				}
				patch := fmt.Appendf(nil, `{"data":{"n":"%d"}}`, writes)
				_, err := core.ConfigMaps("e").Patch(ctx, "a", types.MergePatchType, patch, metav1.PatchOptions{})
				return reconcile.After(time.Second), err
			}), &reconcile.Options{
				Workers: 1, // ran and writes have no lock
				Known:   namesOf(keyIn("d", "a"), keyIn("e", "a")),
				Backoff: queue.Backoff{Base: time.Second},
			})
		g.Expect(err).NotTo(HaveOccurred())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		pass(5500 * time.Millisecond)
		g.Expect(ran).To(And(HaveLen(6), HaveEach("d/a true")), "a write elsewhere holds nothing")
		stop()
		g.Expect(<-ended).To(Succeed())
	})
}

// Keys that wait for their namespace take no room from keys of other
// namespaces.
func TestExternalKeysOfAMissingNamespaceDoNotBlockOthers(t *testing.T) {
	inTenants(t, informer.Options{Independent: true}, func(w *tenants) {
		w.forbidden["b"].Store(true)
		keys := make(chan reconcile.Key)
		stop := w.start(&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.External("cloud", keys)}}, w.watcher())
		for n := range 1500 {
			keys <- keyIn("b", fmt.Sprint(n))
		}
		keys <- keyIn("a", "none")
		w.Expect(w.reconciled()).To(Equal([]string{"-a/none"}))
		w.forbidden["b"].Store(false)
		pass(2 * time.Minute)
		w.Expect(w.reconciled()).To(HaveLen(1500))
		w.Expect(stop()).To(Succeed())
	})
}
