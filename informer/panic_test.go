package informer_test

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/informer"
)

// A panic or a Goexit of a handler used to end the process, as "unlock of
// unlocked mutex".
func TestAHandlerThatPanicsMissesThatEvent(t *testing.T) {
	handlerFails(t, func(name string) { panic("no " + name) })
}

func TestAHandlerThatEndsItsGoroutineMissesThatEvent(t *testing.T) {
	handlerFails(t, func(string) { runtime.Goexit() })
}

// handlerFails calls fail in a handler about b, in the first list, and about c
// and d, one after the other.
func handlerFails(t *testing.T, fail func(name string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		node := func(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
		client := fake.NewClientset(node("a"), node("b"))
		in := informer.For(client.CoreV1().Nodes(), nil)
		var seen, others []string
		in.Handle(func(e informer.Event[*corev1.Node]) {
			if slices.Contains([]string{"b", "c", "d"}, e.New.Name) {
				fail(e.New.Name)
			}
			seen = append(seen, e.New.Name)
		})
		in.Handle(func(e informer.Event[*corev1.Node]) { others = append(others, e.New.Name) })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- in.Run(ctx) }()
		g.Expect(in.WaitForSync(t.Context())).To(Succeed())
		for _, name := range []string{"c", "d", "e"} {
			_, err := client.CoreV1().Nodes().Create(t.Context(), node(name), metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
		}
		<-time.After(time.Minute) // a watch that was ended begins again
		synctest.Wait()
		g.Expect(seen).To(Equal([]string{"a", "e"}))
		g.Expect(others).To(Equal([]string{"a", "b", "c", "d", "e"}))
		g.Expect(in.Status().Panics).To(BeEquivalentTo(3))
		cancel()
		g.Expect(<-ended).To(Succeed())
	})
}

// A failing require in a handler ends the test's goroutine. The handler is then
// removed.
func TestAHandlerThatEndsTheGoroutineOfHandleIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
		in := informer.For(client.CoreV1().Nodes(), nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- in.Run(ctx) }()
		g.Expect(in.WaitForSync(ctx)).To(Succeed())
		go in.Handle(func(informer.Event[*corev1.Node]) { runtime.Goexit() })
		synctest.Wait()
		g.Expect(in.Status().Panics).To(BeEquivalentTo(1))
		g.Expect(client.CoreV1().Nodes().Delete(ctx, "a", metav1.DeleteOptions{})).To(Succeed())
		synctest.Wait()
		g.Expect(in.Status().Panics).To(BeEquivalentTo(1), "it is called no more")
		g.Expect(in.Status().Objects).To(BeZero())
		cancel()
		g.Expect(<-ended).To(Succeed())
	})
}

// The log and the status say which object, also of a deletion, and what has
// ended the watch.
func TestAFailureOfAHandlerIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset(node("a"), node("b"))
		in := informer.For(client.CoreV1().Nodes(), nil)
		in.Handle(func(e informer.Event[*corev1.Node]) {
			switch {
			case e.Type == informer.Deleted && e.Old.Name == "a":
				panic("not a")
			case e.Type == informer.Deleted:
				runtime.Goexit()
			}
		})
		logs := &logbook{}
		stop := running(logs.important(t.Context()), in)
		defer stop()
		g.Expect(in.WaitForSync(t.Context())).To(Succeed())
		g.Expect(client.CoreV1().Nodes().Delete(t.Context(), "a", metav1.DeleteOptions{})).To(Succeed())
		synctest.Wait()
		g.Expect(logs.matching("handler panicked")).To(ConsistOf(And(ContainSubstring(`"name"="a"`), ContainSubstring("not a"))))
		g.Expect(in.Status().LastError).To(BeEmpty())
		g.Expect(client.CoreV1().Nodes().Delete(t.Context(), "b", metav1.DeleteOptions{})).To(Succeed())
		synctest.Wait()
		g.Expect(logs.matching("handler panicked")).To(ContainElement(ContainSubstring(`"name"="b"`)))
		g.Expect(logs.matching("list or watch failed")).To(ConsistOf(ContainSubstring("Goexit")))
		g.Expect(in.Status().LastError).To(ContainSubstring("Goexit"))
		<-time.After(time.Minute)
		synctest.Wait()
		g.Expect(in.Status().LastError).To(BeEmpty())
	})
}

// The informer must not stay locked.
func TestAClientFunctionThatPanicsChangesNoNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset(configMap("a", "1"), configMap("b", "1"))
		in := informer.ForNamespaces(func(namespace string) typedcorev1.ConfigMapInterface {
			if namespace == "bad" {
				panic("there is no client")
			}
			return client.CoreV1().ConfigMaps(namespace)
		}, &informer.Options{Namespaces: []string{"a", "b"}})
		defer running(t.Context(), in)()
		synctest.Wait()
		g.Expect(func() { _ = in.SetNamespaces("b", "bad") }).To(PanicWith("there is no client"))
		g.Expect(in.Snapshot().Len()).To(Equal(2))
		g.Expect(in.SetNamespaces("b")).To(Succeed())
		g.Expect(in.Snapshot().Len()).To(Equal(1))
	})
}
