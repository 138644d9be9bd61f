package reconcile_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile"
)

// lateSecrets is a client whose watch delivers every event late, once the first
// list is through.
type lateSecrets struct {
	typedcorev1.SecretInterface
	late time.Duration
}

func (l lateSecrets) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	inner, err := l.SecretInterface.Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	return delayed(inner, l.late), nil
}

// delayed delivers each event of inner that much later, once the first list is
// through.
func delayed(inner watch.Interface, by time.Duration) watch.Interface {
	type due struct {
		watch.Event
		at time.Time
	}
	arrived := make(chan due, 1000)
	events := make(chan watch.Event)
	outer := watch.NewProxyWatcher(events)
	go func() {
		defer close(arrived)
		late := time.Duration(0)
		for e := range inner.ResultChan() {
			arrived <- due{e, time.Now().Add(late)}
			if e.Type == watch.Bookmark {
				late = by
			}
		}
	}()
	go func() {
		defer close(events)
		defer inner.Stop()
		for e := range arrived {
			if late := time.Until(e.at); late > 0 {
				select {
				case <-time.After(late):
				case <-outer.StopChan():
					return
				}
			}
			select {
			case events <- e.Event:
			case <-outer.StopChan():
				return
			}
		}
	}()
	return outer
}

// A lateFixture has a ConfigMap "a", a cache of Secrets that is late, and a
// controller that wants each ConfigMap to have exactly one Secret, of a
// generated name.
type lateFixture struct {
	*fixture
	maps    typedcorev1.ConfigMapInterface
	secrets typedcorev1.SecretInterface
	cached  *informer.Informer[*corev1.Secret]
	report  func(context.Context, metav1.Object) // how a write is reported
}

func inLateFixture(t *testing.T, late time.Duration, f func(w *lateFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sim, err := apisim.New(nil)
		g := NewWithT(t)
		g.Expect(err).NotTo(HaveOccurred())
		client, err := kubernetes.NewForConfig(sim.Config("controller"))
		g.Expect(err).NotTo(HaveOccurred())
		_, err = client.CoreV1().ConfigMaps("d").Create(t.Context(), configMapNamed("a"), metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		secrets := client.CoreV1().Secrets("d")
		f(&lateFixture{
			fixture: &fixture{WithT: g, t: t, in: informer.For(client.CoreV1().ConfigMaps("d"), nil)},
			maps:    client.CoreV1().ConfigMaps("d"),
			secrets: secrets,
			cached:  informer.For(lateSecrets{secrets, late}, nil),
			report:  reconcile.Wrote,
		})
	})
}

func (w *lateFixture) start(o reconcile.Options) (stop func() error) {
	o.Triggers = []reconcile.Trigger{reconcile.Mapped(w.cached, func(_ context.Context, before, after *corev1.Secret) ([]reconcile.Key, error) {
		return []reconcile.Key{key("a")}, nil
	})}
	return w.fixture.start(&o, func(ctx context.Context, r request) (reconcile.Result, error) {
		w.ran(r.Key.Name)
		if r.Key.Name == "a" && w.cached.Snapshot().Len() == 0 {
			s, err := w.secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}}, metav1.CreateOptions{})
			if err != nil {
				return nothing, err
			}
			w.report(ctx, s)
			return reconcile.After(time.Second), nil
		}
		return nothing, nil
	})
}

func (w *lateFixture) count() int {
	list, err := w.secrets.List(w.t.Context(), metav1.ListOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	return len(list.Items)
}

func TestAControllerReadsItsOwnWrites(t *testing.T) {
	inLateFixture(t, 5*time.Second, func(w *lateFixture) {
		stop := w.start(reconcile.Options{})
		pass(time.Minute)
		w.Expect(w.count()).To(Equal(1))
		w.Expect(stop()).To(Succeed())
	})
}

func TestWithoutTheReportALateCacheMakesDuplicates(t *testing.T) {
	inLateFixture(t, 5*time.Second, func(w *lateFixture) {
		w.report = func(context.Context, metav1.Object) {}
		stop := w.start(reconcile.Options{})
		pass(time.Minute)
		w.Expect(w.count()).To(BeNumerically(">", 1), "this is what the feature is for")
		w.Expect(stop()).To(Succeed())
	})
}

func TestAKeyWaitsNoLongerThanTheDeadline(t *testing.T) {
	inLateFixture(t, time.Hour, func(w *lateFixture) {
		stop := w.start(reconcile.Options{FreshnessDeadline: 20 * time.Second})
		pass(19 * time.Second)
		w.Expect(w.reconciled()).To(HaveLen(1))
		pass(2 * time.Second)
		w.Expect(w.reconciled()).To(HaveLen(1))
		w.Expect(strings.Join(w.logged(), "\n")).To(ContainSubstring("caches have not seen this key"))
		w.Expect(stop()).To(Succeed())
	})
}

func TestOtherKeysDoNotWait(t *testing.T) {
	inLateFixture(t, time.Hour, func(w *lateFixture) {
		stop := w.start(reconcile.Options{Workers: 1})
		w.Expect(w.reconciled()).To(Equal([]string{"a"}))
		w.touch("b", "1")
		w.Expect(w.reconciled()).To(Equal([]string{"b"}))
		w.touch("a", "1")
		w.Expect(w.reconciled()).To(BeEmpty(), "a waits")
		w.touch("b", "2")
		w.Expect(w.reconciled()).To(Equal([]string{"b"}))
		w.Expect(stop()).To(Succeed())
	})
}

func TestADeletionIsSeenWhenTheObjectIsRemoved(t *testing.T) {
	inLateFixture(t, 5*time.Second, func(w *lateFixture) {
		created, err := w.secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		stop := w.fixture.start(&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(w.cached)}},
			func(ctx context.Context, r request) (reconcile.Result, error) {
				cached, ok := w.cached.Get(key("s"))
				w.ran(fmt.Sprint(ok))
				if !ok {
					return nothing, nil
				}
				if err := w.secrets.Delete(ctx, "s", metav1.DeleteOptions{}); err != nil {
					return nothing, err
				}
				reconcile.Deleted(ctx, cached)
				return reconcile.After(time.Second), nil
			})
		w.Expect(w.reconciled()).To(Equal([]string{"true"}))
		pass(4 * time.Second)
		w.Expect(w.reconciled()).To(BeEmpty())
		pass(2 * time.Second)
		w.Expect(w.reconciled()).To(Equal([]string{"false"}))
		w.Expect(created.UID).NotTo(BeEmpty())
		w.Expect(stop()).To(Succeed())
	})
}

// touch creates or changes a ConfigMap.
func (w *lateFixture) touch(name, value string) {
	w.t.Helper()
	object := configMapNamed(name)
	object.Data = map[string]string{"v": value}
	_, err := w.maps.Update(w.t.Context(), object, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = w.maps.Create(w.t.Context(), object, metav1.CreateOptions{})
	}
	w.Expect(err).NotTo(HaveOccurred())
}

func TestWritesOutsideTheInformersScopeDoNotHold(t *testing.T) {
	inLateFixture(t, time.Hour, func(w *lateFixture) {
		w.cached = informer.For(lateSecrets{w.secrets, time.Hour}, &informer.Options{LabelSelector: "mine=yes"})
		stop := w.start(reconcile.Options{})
		pass(3500 * time.Millisecond)
		w.Expect(w.reconciled()).To(HaveLen(4), "every second, since the write will never be seen")
		w.Expect(stop()).To(Succeed())
	})
}

func TestADeleteOutsideTheInformersScopeDoesNotHold(t *testing.T) {
	inLateFixture(t, time.Hour, func(w *lateFixture) {
		w.cached = informer.For(lateSecrets{w.secrets, time.Hour}, &informer.Options{LabelSelector: "mine=yes"})
		w.report = reconcile.Deleted
		stop := w.start(reconcile.Options{})
		pass(3500 * time.Millisecond)
		w.Expect(w.reconciled()).To(HaveLen(4), "every second, since the removal will never be seen")
		w.Expect(stop()).To(Succeed())
	})
}
