package reconcile_test

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile"
)

// Kinds with a generation: a NetworkPolicy has no status, but its generation
// tells all the same.
func TestOnlyAChangeThatMayCureAFailureEndsItsBackoff(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(*networkingv1.Ingress)
		cures bool
	}{
		"generation":  {func(i *networkingv1.Ingress) { i.Generation = 2 }, true},
		"UID":         {func(i *networkingv1.Ingress) { i.UID = "2" }, true},
		"labels":      {func(i *networkingv1.Ingress) { i.Labels = map[string]string{"a": "b"} }, true},
		"annotations": {func(i *networkingv1.Ingress) { i.Annotations = map[string]string{"a": "b"} }, true},
		"deletion": {func(i *networkingv1.Ingress) {
			now := metav1.Now()
			i.DeletionTimestamp, i.Finalizers = &now, []string{"example.com/wait"}
		}, true},
		"status": {func(i *networkingv1.Ingress) {
			i.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "10.0.0.1"}}
		}, false},
		"managed fields": {func(i *networkingv1.Ingress) {
			i.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "somebody"}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inFixture(t, func(w *fixture) {
				before := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a", UID: "1", Generation: 1}}
				ingresses := w.client.NetworkingV1().Ingresses("d")
				_, err := ingresses.Create(t.Context(), before, metav1.CreateOptions{})
				w.Expect(err).NotTo(HaveOccurred())
				stop := failAlways(w, informer.For(ingresses, nil))
				after := before.DeepCopy()
				c.edit(after)
				_, err = ingresses.Update(t.Context(), after, metav1.UpdateOptions{})
				w.Expect(err).NotTo(HaveOccurred())
				ran := len(w.reconciled()) > 0
				w.Expect(ran).To(Equal(c.cures))
				w.Expect(stop()).To(Succeed())
			})
		})
	}
}

func TestAKindWithoutGenerationIsComparedWithoutItsStatus(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(*corev1.Node)
		cures bool
	}{
		"spec":   {func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		"status": {func(n *corev1.Node) { n.Status.NodeInfo.BootID = "2" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inFixture(t, func(w *fixture) {
				nodes := w.client.CoreV1().Nodes()
				before := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
				_, err := nodes.Create(t.Context(), before, metav1.CreateOptions{})
				w.Expect(err).NotTo(HaveOccurred())
				stop := failAlways(w, informer.For(nodes, nil))
				after := before.DeepCopy()
				c.edit(after)
				_, err = nodes.Update(t.Context(), after, metav1.UpdateOptions{})
				w.Expect(err).NotTo(HaveOccurred())
				ran := len(w.reconciled()) > 0
				w.Expect(ran).To(Equal(c.cures))
				w.Expect(stop()).To(Succeed())
			})
		})
	}
}

// failAlways runs a controller whose key is deep in its back-off.
func failAlways[T informer.Object](w *fixture, in *informer.Informer[T]) (stop func() error) {
	failing, err := reconcile.New("test", in, reconcile.Func[T](
		func(_ context.Context, r reconcile.Request[T]) (reconcile.Result, error) {
			w.ran(r.Key.String())
			return reconcile.After(24 * time.Hour), errors.New("no")
		}), &reconcile.Options{Backoff: queue.Backoff{Base: time.Hour, Cap: 24 * time.Hour}})
	w.Expect(err).NotTo(HaveOccurred())
	stop = w.startRun(failing.Run)
	pass(time.Second)
	w.Expect(w.reconciled()).To(HaveLen(1))
	return stop
}

func TestChangesAreReconciledBeforeTheRestOfTheFirstList(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a", "b", "c")
		stop := w.start(&reconcile.Options{Workers: 1}, func(_ context.Context, r request) (reconcile.Result, error) {
			w.ran(r.Key.Name)
			if r.Key.Name == "a" {
				w.update("c", func(c *configMap) { c.Data = map[string]string{"v": "2"} })
				pass(time.Millisecond)
			}
			return nothing, nil
		})
		pass(time.Second)
		w.Expect(w.reconciled()).To(Equal([]string{"a", "c", "b"}))
		w.Expect(stop()).To(Succeed())
	})
}

func TestOwnedFindsOwnersThatAreClusterScoped(t *testing.T) {
	inFixture(t, func(w *fixture) {
		nodes := w.client.CoreV1().Nodes()
		_, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		secrets := informer.For(w.client.CoreV1().Secrets("d"), nil)
		c, err := reconcile.New("test", informer.For(nodes, nil), reconcile.Func[*corev1.Node](
			func(_ context.Context, r reconcile.Request[*corev1.Node]) (reconcile.Result, error) {
				w.ran(r.Key.String())
				return nothing, nil
			}), &reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(secrets)}})
		w.Expect(err).NotTo(HaveOccurred())
		stop := w.startRun(c.Run)
		w.Expect(w.reconciled()).To(Equal([]string{"/n"}))
		_, err = w.client.CoreV1().Secrets("d").Create(t.Context(), secretOwnedBy("s", "Node", "n"), metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.reconciled()).To(Equal([]string{"/n"}))
		w.Expect(stop()).To(Succeed())
	})
}
