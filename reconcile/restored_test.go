package reconcile_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile"
)

// reporters are clients whose writes a controller learns of.
var reporters = map[string]struct {
	client func(*WithT, *apisim.Server) kubernetes.Interface
	report func(context.Context, metav1.Object)
}{
	"reported": {func(_ *WithT, s *apisim.Server) kubernetes.Interface {
		return kubernetes.NewForConfigOrDie(s.Config("writer"))
	}, reconcile.Wrote},
	"seen by the transport": {func(g *WithT, s *apisim.Server) kubernetes.Interface {
		c, err := cluster.New(s.Config("writer"), nil)
		g.Expect(err).NotTo(HaveOccurred())
		return kubernetes.NewForConfigOrDie(c.Config())
	}, func(context.Context, metav1.Object) {}},
}

// The cache of Secrets is ahead of the server: it has come to a resourceVersion
// that the server lost in a restore.
func TestACacheThatIsAheadOfItsServerHasSeenNoWrite(t *testing.T) {
	for name, writer := range reporters {
		for healing, most := range map[string]int{"listed again": 1, "cannot be listed": 7} {
			t.Run(name+", "+healing, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := NewWithT(t)
					sim, err := apisim.New(nil)
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(sim.Load(configMapNamed("a"))).To(Succeed())
					backup := sim.Version()
					for range 100 {
						g.Expect(sim.Load(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "d", GenerateName: "e-"}})).To(Succeed())
					}
					var restored atomic.Bool
					sim.Deny(func(c apisim.Call) error {
						if restored.Load() && healing == "cannot be listed" && c.Client == "reader" && c.Verb == "list" {
							return apierrors.NewServiceUnavailable("not yet")
						}
						return nil
					})
					secrets := writer.client(g, sim).CoreV1().Secrets("d")
					cached := informer.For(kubernetes.NewForConfigOrDie(sim.Config("reader")).CoreV1().Secrets("d"), nil)
					w := &fixture{WithT: g, t: t, in: informer.For(kubernetes.NewForConfigOrDie(sim.Config("maps")).CoreV1().ConfigMaps("d"), nil)}
					made := 0
					stop := w.start(&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(cached)}},
						func(ctx context.Context, _ request) (reconcile.Result, error) {
							if !restored.Load() || cached.Snapshot().Len() > 0 {
								return reconcile.After(time.Second), nil
							}
							made++
							s, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}}, metav1.CreateOptions{})
							if err == nil {
								writer.report(ctx, s)
							}
							return reconcile.After(time.Second), err
						})
					pass(10 * time.Minute)
					g.Expect(sim.Restore(backup)).To(Succeed())
					restored.Store(true)
					pass(time.Minute)
					g.Expect(made).To(And(BeNumerically(">", 0), BeNumerically("<=", most)))
					g.Expect(stop()).To(Succeed())
				})
			})
		}
	}
}

// The cached state of the object was written in the history that the server has
// lost.
func TestAnUpdateOfARestoredServerIsNotSeenByWhatItHasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(HaveOccurred())
		maps := reporters["seen by the transport"].client(g, sim).CoreV1().ConfigMaps("d")
		for _, name := range []string{"a", "b"} {
			g.Expect(sim.Load(configMapNamed(name))).To(Succeed())
		}
		backup := sim.Version()
		var restored atomic.Bool
		w := &fixture{WithT: g, t: t, in: informer.For(kubernetes.NewForConfigOrDie(sim.Config("reader")).CoreV1().ConfigMaps("d"), nil)}
		admin := kubernetes.NewForConfigOrDie(sim.Admin()).CoreV1().ConfigMaps("d")
		set := func(ctx context.Context, name, value string) error {
			object := configMapNamed(name)
			object.Data = map[string]string{"v": value}
			client := maps
			if value != "mine" {
				client = admin
			}
			_, err := client.Update(ctx, object, metav1.UpdateOptions{})
			return err
		}
		sim.Deny(func(c apisim.Call) error {
			if restored.Load() && c.Client == "reader" && c.Verb == "list" {
				return apierrors.NewServiceUnavailable("not yet")
			}
			return nil
		})
		written := 0
		stop := w.start(nil, func(ctx context.Context, r request) (reconcile.Result, error) {
			object, _ := r.Object()
			if r.Key.Name != "a" || !restored.Load() || object.Data["v"] == "mine" {
				return reconcile.After(time.Second), nil
			}
			written++
			return reconcile.After(time.Second), set(ctx, "a", "mine")
		})
		g.Expect(set(t.Context(), "b", "lost")).To(Succeed())
		for _, value := range []string{"lost", "too"} {
			g.Expect(set(t.Context(), "a", value)).To(Succeed())
		}
		pass(10 * time.Minute)
		g.Expect(sim.Restore(backup)).To(Succeed())
		restored.Store(true)
		pass(time.Minute)
		g.Expect(written).To(And(BeNumerically(">", 0), BeNumerically("<=", 7)))
		g.Expect(stop()).To(Succeed())
	})
}
