package informer_test

import (
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
)

// A panic of a handler used to end the process, as "unlock of unlocked mutex".
func TestAHandlerThatPanicsMissesThatEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		node := func(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
		client := fake.NewClientset(node("a"), node("b"))
		in := informer.For(client.CoreV1().Nodes(), nil)
		var seen, others []string
		in.Handle(func(e informer.Event[*corev1.Node]) {
			if e.New.Name == "b" || e.New.Name == "c" {
				panic("no " + e.New.Name)
			}
			seen = append(seen, e.New.Name)
		})
		in.Handle(func(e informer.Event[*corev1.Node]) { others = append(others, e.New.Name) })
		go func() { _ = in.Run(t.Context()) }()
		g.Expect(in.WaitForSync(t.Context())).To(Succeed())
		for _, name := range []string{"c", "d"} {
			_, err := client.CoreV1().Nodes().Create(t.Context(), node(name), metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
		}
		synctest.Wait()
		g.Expect(seen).To(Equal([]string{"a", "d"}))
		g.Expect(others).To(Equal([]string{"a", "b", "c", "d"}))
		g.Expect(in.Status().Panics).To(BeEquivalentTo(2))
	})
}
