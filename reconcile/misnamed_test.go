package reconcile_test

import (
	"context"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
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
