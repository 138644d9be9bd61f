package reconcile_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile"
)

// A mapper of Pods returns the name of the node with the namespace of the Pod.
// It means a node that exists. A reconciler that cleans up by the name alone
// would clean up after this node.
func TestAKeyWithANamespaceThatTheKindDoesNotHaveIsNotDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset(
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "p"}, Spec: corev1.PodSpec{NodeName: "n1"}})
		pods := informer.For(client.CoreV1().Pods(""), nil)
		wrong := reconcile.Mapped(pods, func(_ context.Context, _, pod *corev1.Pod) ([]reconcile.Key, error) {
			return []reconcile.Key{{Namespace: pod.Namespace, Name: pod.Spec.NodeName}}, nil
		})
		w := &fixture{WithT: g, t: t}
		c, err := reconcile.New("nodes", informer.For(client.CoreV1().Nodes(), nil), reconcile.Func[*corev1.Node](
			func(_ context.Context, r reconcile.Request[*corev1.Node]) (reconcile.Result, error) {
				_, ok := r.Object()
				w.ran(r.Key.String() + map[bool]string{true: " lives", false: " is deleted"}[ok])
				return nothing, nil
			}), &reconcile.Options{Triggers: []reconcile.Trigger{wrong}})
		g.Expect(err).NotTo(HaveOccurred())
		stop := w.startRun(c.Run)
		pass(0)
		g.Expect(w.reconciled()).To(ConsistOf("/n1 lives"))
		g.Expect(w.logged()).To(ContainElement(ContainSubstring("not reconciling a key")))
		g.Expect(stop()).To(Succeed())
	})
}

// Neither the Go type nor the client shows that Nodes have no namespaces. The
// cached Nodes show it.
func TestAKeyWithANamespaceIsNotDeletedIfTheCachedObjectsHaveNone(t *testing.T) {
	nodes := corev1.SchemeGroupVersion.WithResource("nodes")
	t.Run("dynamic", func(t *testing.T) {
		inMisnamed(t, func(c *cluster.Cluster) *informer.Informer[*unstructured.Unstructured] {
			return informer.For(informer.Untyped(c.Dynamic().Resource(nodes)), nil)
		})
	})
	t.Run("metadata", func(t *testing.T) {
		inMisnamed(t, func(c *cluster.Cluster) *informer.Informer[*metav1.PartialObjectMetadata] {
			return informer.For(informer.Untyped(c.Metadata().Resource(nodes)), nil)
		})
	})
}

// inMisnamed reconciles Nodes, and keys that have a namespace.
func inMisnamed[T informer.Object](t *testing.T, cacheOf func(*cluster.Cluster) *informer.Informer[T]) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &fixture{WithT: NewWithT(t), t: t}
		sim, err := apisim.New(nil)
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(sim.Load(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})).To(Succeed())
		connected, err := cluster.New(sim.Config("test"), nil)
		w.Expect(err).NotTo(HaveOccurred())
		cache := cacheOf(connected)
		c, err := reconcile.New("nodes", cache, reconcile.Func[T](
			func(_ context.Context, r reconcile.Request[T]) (reconcile.Result, error) {
				_, ok := r.Object()
				w.ran(r.Key.String() + map[bool]string{true: " lives", false: " is deleted"}[ok])
				return nothing, nil
			}), &reconcile.Options{Known: knownKeys("n1")})
		w.Expect(err).NotTo(HaveOccurred())
		stop := w.startRun(c.Run)
		c.Enqueue(key("n1"), reconcile.Key{Name: "gone"})
		pass(time.Second)
		w.Expect(w.reconciled()).To(ConsistOf("/n1 lives", "/gone is deleted"))
		w.Expect(c.Sweep().Stats().OutOfScope).To(Equal(1))
		deleted := map[reconcile.Key]bool{}
		for range 50 {
			for _, k := range []reconcile.Key{key("n1"), {Name: "gone"}} {
				deleted[k] = deleted[k] || cache.IsDeleted(t.Context(), k)
			}
		}
		w.Expect(deleted).To(Equal(map[reconcile.Key]bool{key("n1"): false, {Name: "gone"}: true}))
		w.Expect(stop()).To(Succeed())
	})
}
