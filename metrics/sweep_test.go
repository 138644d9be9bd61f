package metrics_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/metrics"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
)

func TestARefusedSweepShowsHowManyOrphansWaitAndTheWayOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		gone := names.Func(func(context.Context) ([]reconcile.Key, error) {
			var keys []reconcile.Key
			for n := range 30 {
				keys = append(keys, reconcile.Key{Namespace: "d", Name: fmt.Sprintf("gone-%02d", n)})
			}
			return keys, nil
		})
		client := fake.NewClientset()
		controller, err := reconcile.New("test", informer.For(client.CoreV1().ConfigMaps("d"), nil),
			reconcile.Func[*corev1.ConfigMap](
				func(context.Context, reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
					return reconcile.Result{}, nil
				}), &reconcile.Options{Known: gone})
		g.Expect(err).NotTo(HaveOccurred())
		registry := prometheus.NewPedanticRegistry()
		g.Expect(registry.Register(metrics.New(controller))).To(Succeed())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- controller.Run(ctx) }()
		synctest.Wait()
		g.Expect(testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP homeostat_sweep_refused_orphans Orphans that the brake holds back: more than names.Options.MaxCount and MaxShare allow. If they are gone indeed, let one sweep pass with Sweep.Confirm or names.Options.Confirmed.
# TYPE homeostat_sweep_refused_orphans gauge
homeostat_sweep_refused_orphans{controller="test"} 30
`), "homeostat_sweep_refused_orphans")).To(Succeed())
		stop()
		g.Expect(<-ended).To(Succeed())
	})
}
