package reconcile_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile"
)

// inServedFixture has a simulated API server with ConfigMap "a", and a
// clientset for each of two field managers.
func inServedFixture(t *testing.T, f func(w *fixture, ours, theirs typedcorev1.ConfigMapInterface)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(HaveOccurred())
		maps := func(name string) typedcorev1.ConfigMapInterface {
			client, err := kubernetes.NewForConfig(sim.Config(name))
			g.Expect(err).NotTo(HaveOccurred())
			return client.CoreV1().ConfigMaps("d")
		}
		ours := maps("test")
		_, err = ours.Create(t.Context(), configMapNamed("a"), metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		f(&fixture{WithT: g, t: t, in: informer.For(ours, nil)}, ours, maps("rival"))
	})
}

// set changes one entry of the data as manager, and reports it.
func set(ctx context.Context, maps typedcorev1.ConfigMapInterface, manager string, c *configMap, name, value string) error {
	c = c.DeepCopy()
	if c.Data == nil {
		c.Data = map[string]string{}
	}
	c.Data[name] = value
	now := metav1.Now()
	c.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &now,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fmt.Sprintf(`{"f:data":{"f:%s":{}}}`, name)),
	}}
	written, err := maps.Update(ctx, c, metav1.UpdateOptions{FieldManager: manager})
	if err == nil {
		reconcile.Wrote(ctx, written)
	}
	return err
}

// insist sets one entry of the data of "a", over conflicts with the controller.
func (w *fixture) insist(maps typedcorev1.ConfigMapInterface, manager, name, value string) {
	w.t.Helper()
	w.Expect(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		object, err := maps.Get(w.t.Context(), "a", metav1.GetOptions{})
		if err != nil || object.Data[name] == value {
			return err
		}
		return set(w.t.Context(), maps, manager, object, name, value)
	})).To(Succeed())
}

func TestAControllerThatWakesItselfIsSlowedDownAndNamed(t *testing.T) {
	inServedFixture(t, func(w *fixture, maps, _ typedcorev1.ConfigMapInterface) {
		recorder := events.NewFakeRecorder(100)
		reconciles := 0
		stop := w.start(&reconcile.Options{Events: recorder}, func(ctx context.Context, r request) (reconcile.Result, error) {
			object, _ := r.Object()
			reconciles++
			return nothing, set(ctx, maps, "test", object, "last", strconv.Itoa(reconciles))
		})
		pass(10 * time.Minute)
		w.Expect(reconciles).To(BeNumerically("<", 100), "it would be endless at one instant otherwise")
		w.Expect(reconciles).To(BeNumerically(">", 10), "slowed down, not dropped")
		w.Expect(strings.Join(w.logged(), "\n")).To(And(
			ContainSubstring("hot loop"), MatchRegexp(`ConfigMap d/a: field \\?"data.last\\?" was`)))
		w.Expect(<-recorder.Events).To(And(ContainSubstring("HotLoop"), ContainSubstring("data.last")))
		w.Expect(stop()).To(Succeed())
	})
}

func TestAWriteFightIsSlowedDownAndNamesTheRival(t *testing.T) {
	inServedFixture(t, func(w *fixture, maps, theirs typedcorev1.ConfigMapInterface) {
		reconciles := 0
		stop := w.start(nil, func(ctx context.Context, r request) (reconcile.Result, error) {
			object, _ := r.Object()
			if object.Data["owner"] == "us" {
				return nothing, nil
			}
			reconciles++
			return nothing, set(ctx, maps, "test", object, "owner", "us")
		})
		w.reconciled()
		for range 600 { // for a minute
			w.insist(theirs, "rival", "owner", "them")
			pass(100 * time.Millisecond)
		}
		w.Expect(reconciles).To(BeNumerically("<", 100), "600 times without the detector")
		w.Expect(strings.Join(w.logged(), "\n")).To(And(
			ContainSubstring("data.owner"), ContainSubstring(`field manager \"rival\"`)))
		w.Expect(stop()).To(Succeed())
	})
}

func TestABusyControllerThatGetsOnIsNeverSlowedDown(t *testing.T) {
	for name, answer := range map[string]func(wanted string) string{
		"new values":         func(wanted string) string { return "done " + wanted },
		"values that toggle": func(wanted string) string { return wanted[len(wanted)-1:] },
	} {
		t.Run(name, func(t *testing.T) {
			inServedFixture(t, func(w *fixture, maps, theirs typedcorev1.ConfigMapInterface) {
				stop := w.start(nil, func(ctx context.Context, r request) (reconcile.Result, error) {
					object, _ := r.Object()
					if is := answer("0" + object.Data["wanted"]); object.Data["is"] != is {
						w.ran(is)
						return nothing, set(ctx, maps, "test", object, "is", is)
					}
					return nothing, nil
				})
				for n := range 1000 {
					w.insist(theirs, "user", "wanted", strconv.Itoa(n))
					pass(10 * time.Millisecond)
				}
				w.Expect(len(w.reconciled())).To(BeNumerically(">=", 1000))
				w.Expect(strings.Join(w.logged(), "\n")).NotTo(ContainSubstring("hot loop"))
				w.Expect(stop()).To(Succeed())
			})
		})
	}
}

// A rival that edits now and then is repaired within a second, however often;
// only one that answers is a loop.
func TestAnIsolatedEditIsRepairedWithinASecond(t *testing.T) {
	inServedFixture(t, func(w *fixture, maps, theirs typedcorev1.ConfigMapInterface) {
		c := w.made(nil, func(ctx context.Context, r request) (reconcile.Result, error) {
			if object, _ := r.Object(); object.Data["owner"] != "us" {
				return nothing, set(ctx, maps, "test", object, "owner", "us")
			}
			return nothing, nil
		})
		stop := w.startRun(c.Run)
		repaired := func() {
			w.t.Helper()
			w.insist(theirs, "rival", "owner", "them")
			pass(time.Second)
			object, err := maps.Get(t.Context(), "a", metav1.GetOptions{})
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(object.Data["owner"]).To(Equal("us"))
		}
		for range 30 {
			repaired()
			pass(15 * time.Second)
		}
		w.Expect(c.Stats().HotLoops).To(BeZero())
		for range 60 { // a real loop
			w.insist(theirs, "rival", "owner", "them")
			pass(200 * time.Millisecond)
		}
		w.Expect(c.Stats().HotLoops).NotTo(BeZero())
		w.Expect(c.Stats().Failing).To(Equal(1))
		w.Expect(keysOf(c)["a"].Failure).To(And(ContainSubstring("hot loop"), ContainSubstring("data.owner")))
		pass(2 * time.Minute)
		repaired()
		w.Expect(c.Stats().Failing).To(BeZero())
		w.Expect(stop()).To(Succeed())
	})
}
