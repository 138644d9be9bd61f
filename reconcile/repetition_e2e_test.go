//go:build e2e

package reconcile_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// A server-side apply of a field that another manager owns was repeated 291
// times in 20 seconds.
func TestE2EAConflictOfAnApplyBacksOff(t *testing.T) {
	g := NewWithT(t)
	cluster, err := e2e.Start(t.Context(), &e2e.Options{Progress: t.Output()})
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(cluster.Stop()).To(Succeed()) }()
	client, err := kubernetes.NewForConfig(cluster.Config())
	g.Expect(err).NotTo(HaveOccurred())
	namespace, err := cluster.Namespace(t.Context(), "repetition")
	g.Expect(err).NotTo(HaveOccurred())
	maps := client.CoreV1().ConfigMaps(namespace)
	wanted := func(value string) *applycorev1.ConfigMapApplyConfiguration {
		return applycorev1.ConfigMap("a", namespace).WithData(map[string]string{"owner": value})
	}
	_, err = maps.Apply(t.Context(), wanted("them"), metav1.ApplyOptions{FieldManager: "rival"})
	g.Expect(err).NotTo(HaveOccurred())

	var requests atomic.Int32
	in := informer.For(maps, &informer.Options{FieldSelector: "metadata.name=a"})
	c, err := reconcile.New("test", in, reconcile.Func[*configMap](
		func(ctx context.Context, _ request) (reconcile.Result, error) {
			requests.Add(1)
			_, err := maps.Apply(ctx, wanted("us"), metav1.ApplyOptions{FieldManager: "test"})
			return nothing, err
		}), nil)
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	g.Expect(c.Run(ctx)).To(Succeed())
	g.Expect(requests.Load()).To(And(BeNumerically(">", 2), BeNumerically("<", 40)))
	g.Expect(c.Stats().Reconciles[inspect.Conflicted]).To(BeZero(), "it is a failure at once")
	g.Expect(c.Stats().Failing).To(Equal(1))
}
