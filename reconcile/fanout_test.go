package reconcile_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

// inReachedWorld has a simulated API server and two clients: ours through
// package cluster, and a client of another program.
func inReachedWorld(t *testing.T, f func(w *fixture, ours, theirs kubernetes.Interface)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(HaveOccurred())
		reached, err := cluster.New(sim.Config("us"), nil)
		g.Expect(err).NotTo(HaveOccurred())
		ours, theirs := kubernetes.NewForConfigOrDie(reached.Config()), kubernetes.NewForConfigOrDie(sim.Config("rival"))
		f(&fixture{WithT: g, t: t, in: informer.For(ours.CoreV1().ConfigMaps("d"), nil)}, ours, theirs)
	})
}

// One source is copied to each of many outputs, and changes each second.
func TestOneKeyWithManyOutputsFollowsItsSource(t *testing.T) {
	for _, outputs := range []int{20, 500} {
		t.Run(fmt.Sprint(outputs), func(t *testing.T) {
			inReachedWorld(t, func(w *fixture, ours, theirs kubernetes.Interface) {
				maps := theirs.CoreV1().ConfigMaps("d")
				_, err := maps.Create(t.Context(), configMapNamed("source"), metav1.CreateOptions{})
				w.Expect(err).NotTo(HaveOccurred())
				copies := informer.For(ours.CoreV1().ConfigMaps("copies"), nil)
				c, err := reconcile.New("mirror", w.in, reconcile.Func[*configMap](
					func(ctx context.Context, r request) (reconcile.Result, error) {
						source, _ := r.Object()
						for n := range outputs {
							copied := configMapNamed(fmt.Sprint(n))
							copied.Namespace = "copies"
							if cached, ok := copies.Get(types.NamespacedName{Namespace: "copies", Name: copied.Name}); ok {
								copied = cached
							}
							_, err := patch.Ensure(ctx, ours.CoreV1().ConfigMaps, copied, nil, func(m *configMap) { m.Data = source.Data })
							if err != nil {
								return nothing, err
							}
						}
						return nothing, nil
					}), &reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Mapped(copies,
					func(context.Context, *configMap, *configMap) ([]reconcile.Key, error) {
						return []reconcile.Key{key("source")}, nil
					},
				)}})
				w.Expect(err).NotTo(HaveOccurred())
				stop := w.startRun(c.Run)
				patched := func(namespace, name, value string) {
					_, err := theirs.CoreV1().ConfigMaps(namespace).Patch(t.Context(), name, types.MergePatchType,
						fmt.Appendf(nil, `{"data":{"v":%q}}`, value), metav1.PatchOptions{})
					w.Expect(err).NotTo(HaveOccurred())
				}
				for n := range 20 {
					patched("d", "source", strconv.Itoa(n))
					pass(time.Second)
				}
				for n := range outputs {
					object, ok := copies.Get(types.NamespacedName{Namespace: "copies", Name: fmt.Sprint(n)})
					w.Expect(ok).To(BeTrue())
					w.Expect(object.Data["v"]).To(Equal("19"))
				}
				for n := range 40 { // isolated, each of another copy
					name := fmt.Sprint(n * outputs / 40)
					patched("copies", name, "theirs "+strconv.Itoa(n))
					pass(100 * time.Millisecond)
					object, _ := copies.Get(types.NamespacedName{Namespace: "copies", Name: name})
					w.Expect(object.Data["v"]).To(Equal("19"))
				}
				w.Expect(c.Stats().HotLoops).To(BeZero())
				w.Expect(strings.Join(w.logged(), "\n")).NotTo(ContainSubstring("hot loop"))
				w.Expect(stop()).To(Succeed())
			})
		})
	}
}

// A third client writes the status all the time, before the answers as well as
// after them.
func TestAFightOverASpecIsDetectedWhateverTheStatusDoes(t *testing.T) {
	inReachedWorld(t, func(w *fixture, ours, theirs kubernetes.Interface) {
		wanted := int32(3)
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
			Replicas: &wanted, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		}}
		deployment.Spec.Template.Labels = deployment.Spec.Selector.MatchLabels
		deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
		_, err := theirs.AppsV1().Deployments("d").Create(t.Context(), deployment, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		in := informer.For(ours.AppsV1().Deployments("d"), nil)
		var writes, seen atomic.Int32
		status := func() {
			_, err := theirs.AppsV1().Deployments("d").Patch(t.Context(), "web", types.MergePatchType,
				fmt.Appendf(nil, `{"status":{"observedGeneration":%d}}`, seen.Add(1)), metav1.PatchOptions{}, "status")
			w.Expect(err).NotTo(HaveOccurred())
		}
		c, err := reconcile.New("scaler", in, reconcile.Func[*appsv1.Deployment](
			func(ctx context.Context, r reconcile.Request[*appsv1.Deployment]) (reconcile.Result, error) {
				cached, _ := r.Object()
				if *cached.Spec.Replicas == wanted {
					return nothing, nil
				}
				status() // after the cached state
				edited := cached.DeepCopy()
				edited.Spec.Replicas, edited.ResourceVersion = &wanted, ""
				_, err := ours.AppsV1().Deployments("d").Update(ctx, edited, metav1.UpdateOptions{})
				writes.Add(1)
				status()
				return nothing, err
			}), nil)
		w.Expect(err).NotTo(HaveOccurred())
		stop := w.startRun(c.Run)
		pass(time.Second)
		for n := range 4 * 60 {
			_, err := theirs.AppsV1().Deployments("d").Patch(t.Context(), "web", types.MergePatchType,
				[]byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{})
			w.Expect(err).NotTo(HaveOccurred())
			status()
			if pass(250 * time.Millisecond); n == 12 {
				w.Expect(c.Stats().HotLoops).NotTo(BeZero(), "after three seconds")
			}
		}
		w.Expect(writes.Load()).To(BeNumerically("<=", 10))
		w.Expect(strings.Join(w.logged(), "\n")).To(MatchRegexp(`d/web: field \\?"spec.replicas\\?" was written`))
		w.Expect(stop()).To(Succeed())
	})
}

// The garbage collector deletes what has an owner that does not exist.
func TestAnObjectThatIsDeletedAgainAndAgainIsCreatedOnceAMinute(t *testing.T) {
	inReachedWorld(t, func(w *fixture, ours, theirs kubernetes.Interface) {
		maps := theirs.CoreV1().ConfigMaps("d")
		_, err := maps.Create(t.Context(), configMapNamed("a"), metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		children := informer.For(ours.CoreV1().Secrets("d"), nil)
		c, err := reconcile.New("creator", w.in, reconcile.Func[*configMap](
			func(ctx context.Context, _ request) (reconcile.Result, error) {
				if _, ok := children.Get(key("child")); ok {
					return nothing, nil
				}
				child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "child"}}
				child.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "gone"}}
				_, err := ours.CoreV1().Secrets("d").Create(ctx, child, metav1.CreateOptions{})
				w.ran("create")
				return nothing, err
			}), &reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Mapped(children,
			func(context.Context, *corev1.Secret, *corev1.Secret) ([]reconcile.Key, error) {
				return []reconcile.Key{key("a")}, nil
			},
		)}})
		w.Expect(err).NotTo(HaveOccurred())
		stop := w.startRun(c.Run)
		collect := func(d time.Duration) {
			for range d / (100 * time.Millisecond) {
				_ = theirs.CoreV1().Secrets("d").Delete(t.Context(), "child", metav1.DeleteOptions{})
				pass(100 * time.Millisecond)
			}
		}
		collect(time.Minute)
		w.Expect(len(w.reconciled())).To(BeNumerically("<=", 10))
		collect(9 * time.Minute)
		w.Expect(len(w.reconciled())).To(BeNumerically("~", 9, 1))
		w.Expect(strings.Join(w.logged(), "\n")).To(ContainSubstring("d/child: it was created"))
		w.Expect(stop()).To(Succeed())
	})
}

func TestATimerThatIsAlwaysDueSlowsDown(t *testing.T) {
	for name, result := range map[string]func() reconcile.Result{
		"After(1ns)":           func() reconcile.Result { return reconcile.After(1) },
		"After(time.Until(x))": func() reconcile.Result { return reconcile.After(time.Until(time.Now().Add(time.Millisecond))) },
	} {
		g := NewWithT(t)
		at, c, _ := repeating(t, 20*time.Second, func(int) (reconcile.Result, error) { return result(), nil })
		g.Expect(len(at)).To(BeNumerically("~", 9, 1), name)
		g.Expect(c.Stats().Failing).To(Equal(1))
	}
	g := NewWithT(t)
	at, _, _ := repeating(t, time.Second, func(int) (reconcile.Result, error) { return reconcile.After(50 * time.Millisecond), nil })
	g.Expect(len(at)).To(BeNumerically("~", 20, 1), "that is a pause")
}
