package reconcile_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile"
)

// A reconciler deletes a Secret that is not as it wants, and creates it again in
// the same reconcile. A webhook changes each new Secret. The mapper receives the
// two events as one.
func TestAMappedObjectThatIsDeletedAndCreatedAgainAndAgainIsSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fixture{WithT: NewWithT(t), t: t}
		sim, err := apisim.New(nil)
		w.Expect(err).NotTo(HaveOccurred())
		sim.MutateWith(func(c apisim.Call, object map[string]any) {
			if c.Resource.Resource == "secrets" {
				object["type"] = "example.com/injected"
			}
		})
		w.Expect(sim.Load(configMapNamed("a"))).To(Succeed())
		connected, err := cluster.New(sim.Config("test"), nil)
		w.Expect(err).NotTo(HaveOccurred())
		secrets := connected.Client().CoreV1().Secrets("d")
		var created atomic.Int32
		cached := informer.For(secrets, nil)
		c, err := reconcile.New("test", informer.For(connected.Client().CoreV1().ConfigMaps("d"), nil),
			reconcile.Func[*configMap](func(ctx context.Context, _ request) (reconcile.Result, error) {
				if old, ok := cached.Get(key("s")); ok && old.Type != "example.com/wanted" {
					if err := secrets.Delete(ctx, "s", metav1.DeleteOptions{}); err != nil {
						return nothing, err
					}
				}
				created.Add(1)
				_, err := secrets.Create(ctx, &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "s"}, Type: "example.com/wanted",
				}, metav1.CreateOptions{})
				return nothing, err
			}),
			&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Mapped(cached,
				func(context.Context, *corev1.Secret, *corev1.Secret) ([]reconcile.Key, error) {
					return []reconcile.Key{key("a")}, nil
				})}})
		w.Expect(err).NotTo(HaveOccurred())
		stop := w.startRun(c.Run)
		pass(time.Minute)
		w.Expect(created.Load()).To(BeNumerically("<=", 10), "hundreds if the two events count as one of another client")
		pass(time.Hour)
		w.Expect(created.Load()).To(BeNumerically("<=", 75), "one a minute")
		w.Expect(stop()).To(Succeed())
	})
}
