package informer_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/informer"
)

func TestWrongOptionsAreNamedWithFieldAndValue(t *testing.T) {
	g := NewWithT(t)
	in := informer.For(fake.NewClientset().CoreV1().Nodes(), &informer.Options{
		LabelSelector: "a in", FieldSelector: "a", Namespaces: []string{"UPPER"}, PageSize: -1, MutationCheck: "maybe",
		BackoffBase: -1, BackoffCap: -2,
	})
	err := errors.Join(in.Run(t.Context()), in.WaitForSync(t.Context()), in.Parts().Validate())
	for _, wrong := range []string{
		"running the informer of nodes: informer.Options.", "waiting for the first list of nodes: informer.Options.", "informer of nodes: informer.Options.",
		`Options.LabelSelector is "a in": `, `Options.FieldSelector is "a": `, `Options.Namespaces[0] is "UPPER": `,
		`Options.MutationCheck is "maybe": must be one of ["" "always" "never"]`,
		"Options.PageSize is -1: must not be negative",
		"Options.BackoffBase is -1ns: must not be negative",
		"Options.BackoffCap is -2ns: must not be negative",
	} {
		g.Expect(err).To(MatchError(ContainSubstring(wrong)))
	}
	g.Expect(err).NotTo(MatchError(ContainSubstring("at least BackoffBase")), "which is not one")
	g.Expect(informer.For(fake.NewClientset().CoreV1().Nodes(), &informer.Options{BackoffBase: 2, BackoffCap: 1}).Parts().Validate()).
		To(MatchError(ContainSubstring("Options.BackoffCap is 1ns: must be at least BackoffBase, 2ns")))
	g.Expect(informer.For(fake.NewClientset().CoreV1().Nodes(), nil).Parts().Validate()).To(Succeed())
}

func TestAnInformerMayHaveAnotherName(t *testing.T) {
	in := informer.For(fake.NewClientset().CoreV1().Nodes(), &informer.Options{Name: "machines"})
	NewWithT(t).Expect(in.Name()).To(Equal("machines"))
}

func TestTypesHaveNames(t *testing.T) {
	NewWithT(t).Expect(fmt.Sprint(informer.Added, informer.Updated, informer.Deleted, informer.EventType(0))).
		To(Equal("added updated deleted unknown"))
}

func TestHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api := fake.NewClientset(node("a"), node("b")).CoreV1().Nodes()
		nodes := informer.For(api, nil)
		syncsAtOnce(t, g, nodes)

		late, removed := &record{}, &record{}
		nodes.Handle(late.hear)
		g.Expect(late.heard()).To(Equal([]string{"known a", "known b"}), "before Handle returns")
		var remove func()
		remove = nodes.Handle(func(e informer.Event[*corev1.Node]) {
			removed.hear(e)
			if !e.Initial {
				remove()
			}
		})
		_, err := api.Create(t.Context(), node("c"), metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(api.Delete(t.Context(), "a", metav1.DeleteOptions{})).To(Succeed())
		synctest.Wait()
		g.Expect(late.heard()).To(Equal([]string{"known a", "known b", "added c", "deleted a"}))
		g.Expect(removed.heard()).To(Equal([]string{"known a", "known b", "added c"}))
	})
}

func TestARemovedHandlerReceivesNoMoreEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		nodes := informer.For(fake.NewClientset(node("a"), node("b"), node("c")).CoreV1().Nodes(), nil)
		told := &record{}
		var remove func()
		remove = nodes.Handle(func(e informer.Event[*corev1.Node]) {
			told.hear(e)
			remove() // the others of the first list are on their way
		})
		syncsAtOnce(t, g, nodes)
		g.Expect(told.heard()).To(Equal([]string{"known a"}))
	})
}

func TestHandlerThatJoinsDuringChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api := fake.NewClientset(node("a"), node("b")).CoreV1().Nodes()
		nodes := informer.For(api, nil)
		syncsAtOnce(t, g, nodes)
		told := &record{}
		nodes.Handle(func(e informer.Event[*corev1.Node]) {
			if e.Initial && e.New.Name == "a" { // changes come while the known objects are replayed
				_, err := api.Create(t.Context(), node("c"), metav1.CreateOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(api.Delete(t.Context(), "b", metav1.DeleteOptions{})).To(Succeed())
				synctest.Wait()
			}
			told.hear(e)
		})
		g.Expect(told.heard()).To(Equal([]string{"known a", "known b", "added c", "deleted b"}))
	})
}

// Two watches each deliver a change at the same time.
func TestCallsOfHandlersDoNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		gates := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{})}
		in := informer.ForNamespaces(func(namespace string) corev1client.NodeInterface { // as if nodes had one
			client, _ := clientTo("", newScript(stream(hold, listEnd("10"), gates[namespace], added(versioned(namespace, "1", "20")))))
			return client.CoreV1().Nodes()
		}, &informer.Options{Namespaces: []string{"a", "b"}})
		stop := running(t.Context(), in)
		defer stop()
		synctest.Wait()
		calls, most, heard := 0, 0, 0
		in.Handle(func(informer.Event[*corev1.Node]) {
			calls++
			most = max(most, calls)
			<-time.After(time.Second)
			calls--
			heard++
		})
		close(gates["a"])
		close(gates["b"])
		<-time.After(time.Minute)
		synctest.Wait()
		g.Expect(heard).To(Equal(2))
		g.Expect(most).To(Equal(1))
	})
}

func TestSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		gate := make(chan struct{})
		nodes, _ := scripted(t, nil, stream(hold, added(versioned("a", "1", "5")), listEnd("100"), gate, bookmark("200")))
		var calls []string
		call := func(name string) func() { return func() { calls = append(calls, name) } }
		nodes.Parts().OnSeen("", "50", call("early"))
		nodes.Parts().OnSeen("", "not a number", call("incomparable"))
		nodes.Parts().OnSeen("", "150", call("later"))
		nodes.Parts().OnSeen("", "150", call("cancelled"))()
		g.Expect(calls).To(BeEmpty(), "nothing has been seen yet")
		stop := running(t.Context(), nodes)
		defer stop()
		synctest.Wait()
		g.Expect(calls).To(ConsistOf("early", "incomparable"))
		g.Expect(nodes.LastResourceVersion()).To(Equal("100"))
		nodes.Parts().OnSeen("", "99", call("at once"))
		g.Expect(calls).To(HaveLen(3))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := nodes.WaitFor(ctx, "150")
		g.Expect(err).To(MatchError(ContainSubstring(`cache of nodes to see resourceVersion "150" (it has seen "100")`)))
		g.Expect(err).To(MatchError(context.DeadlineExceeded))
		close(gate)
		synctest.Wait()
		g.Expect(calls).To(ConsistOf("early", "incomparable", "at once", "later"))
	})
}

// Waiters are notified in the order in which they began to wait, so that
// simulations are deterministic.
func TestSeenIsToldInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		nodes, _ := scripted(t, nil, stream(hold, listEnd("100")))
		var calls, want []int
		for n := range 20 {
			want = append(want, n)
			nodes.Parts().OnSeen("", "100", func() { calls = append(calls, n) })
		}
		stop := running(t.Context(), nodes)
		defer stop()
		synctest.Wait()
		g.Expect(calls).To(Equal(want))
	})
}

// The watch of a quiet namespace does not hold up waiters for a different
// namespace.
func TestSeenOfANamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		gates := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{})}
		in := informer.ForNamespaces(func(namespace string) corev1client.NodeInterface { // as if nodes had one
			client, _ := clientTo("", newScript(stream(hold, listEnd("10"), gates[namespace], bookmark("20"))))
			return client.CoreV1().Nodes()
		}, &informer.Options{Namespaces: []string{"a", "b"}})
		stop := running(t.Context(), in)
		defer stop()
		synctest.Wait()
		var calls []string
		for _, namespace := range []string{"a", "b", "", "unknown"} {
			in.Parts().OnSeen(namespace, "20", func() { calls = append(calls, namespace) })
		}
		close(gates["a"])
		synctest.Wait()
		g.Expect(calls).To(Equal([]string{"a"}))
		close(gates["b"])
		synctest.Wait()
		g.Expect(calls).To(ConsistOf("a", "b", "", "unknown"))
	})
}

func TestSeenOnlyGoesForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		nodes, _ := scripted(t, nil, stream(hold, added(versioned("a", "1", "5")), listEnd("10"),
			modified(versioned("a", "1", "15")), modified(versioned("a", "1", "12"))))
		stop := running(t.Context(), nodes)
		defer stop()
		g.Expect(nodes.WaitForSync(t.Context())).To(Succeed())
		synctest.Wait()
		g.Expect(nodes.LastResourceVersion()).To(Equal("15"))
	})
}

// A server that was restored from a backup is behind the resourceVersion that
// was seen. The list of the restored server counts from then on.
func TestSeenGoesBackWithANewList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		gate := make(chan struct{})
		expired := event("ERROR", failure(http.StatusGone, metav1.StatusReasonExpired))
		nodes, _ := scripted(t, nil, stream(end, listEnd("100"), expired),
			stream(hold, added(versioned("a", "1", "40")), listEnd("50"), gate, modified(versioned("a", "1", "60"))))
		stop := running(t.Context(), nodes)
		defer stop()
		<-time.After(time.Minute)
		synctest.Wait()
		g.Expect(nodes.LastResourceVersion()).To(Equal("50"))
		seen := false
		nodes.Parts().OnSeen("", "60", func() { seen = true })
		g.Expect(seen).To(BeFalse())
		close(gate)
		synctest.Wait()
		g.Expect(seen).To(BeTrue())
		g.Expect(nodes.LastResourceVersion()).To(Equal("60"))
	})
}

func TestSnapshotStaysWhileTheCacheMovesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset(pod("b", "1"), pod("a", "2"), pod("a", "1"))
		pods := informer.For(client.CoreV1().Pods(""), nil)
		g.Expect(pods.Snapshot().Len()).To(BeZero())
		syncsAtOnce(t, g, pods)
		before := pods.Snapshot()
		g.Expect(client.CoreV1().Pods("a").Delete(t.Context(), "1", metav1.DeleteOptions{})).To(Succeed())
		synctest.Wait()
		g.Expect(keys(pods)).To(Equal([]string{"a/2", "b/1"}))
		var names []string
		for p := range before.Namespace("a") {
			names = append(names, p.Name)
		}
		g.Expect(names).To(Equal([]string{"1", "2"}))
		g.Expect(before.Len()).To(Equal(3))
		_, ok := before.Get(types.NamespacedName{Namespace: "a", Name: "1"})
		g.Expect(ok).To(BeTrue())
		_, ok = pods.Get(types.NamespacedName{Namespace: "a", Name: "1"})
		g.Expect(ok).To(BeFalse())
		g.Expect(informer.Snapshot[*corev1.Pod]{}.Len()).To(BeZero())
	})
}

func TestTransform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		stored := pod("a", "1")
		stored.Annotations = map[string]string{"large": "value"}
		stored.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
		client := fake.NewSimpleClientset(stored)
		pods := informer.For(client.CoreV1().Pods(""), &informer.Options{
			DropManagedFields: true,
			Transform:         func(o informer.Object) { o.SetAnnotations(nil) },
		})
		syncsAtOnce(t, g, pods)
		cached, _ := pods.Get(types.NamespacedName{Namespace: "a", Name: "1"})
		g.Expect(cached.Annotations).To(BeEmpty())
		g.Expect(cached.ManagedFields).To(BeEmpty())
		g.Expect(stored.Annotations).NotTo(BeEmpty(), "a fake's own object stays as it is")
	})
}

func TestReadsAllocateNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset()
		for n := range 300 {
			g.Expect(client.Tracker().Add(pod(fmt.Sprint(n%3), fmt.Sprint(n)))).To(Succeed())
		}
		pods := informer.For(client.CoreV1().Pods(""), nil)
		syncsAtOnce(t, g, pods)
		key := types.NamespacedName{Namespace: "1", Name: "100"}
		found := 0
		for name, read := range map[string]func(){
			"Get": func() { _, _ = pods.Get(key) },
			"Snapshot.Get": func() {
				_, _ = pods.Snapshot().Get(key)
			},
			"All": func() {
				for p := range pods.Snapshot().All() {
					found += len(p.Name)
				}
			},
			"Namespace": func() {
				for p := range pods.Snapshot().Namespace("2") {
					found += len(p.Name)
				}
			},
		} {
			g.Expect(testing.AllocsPerRun(100, read)).To(BeZero(), name)
		}
		g.Expect(found).NotTo(BeZero())
	})
}

func TestHandlersThatAreRemovedAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		nodes := informer.For(fake.NewClientset(node("a")).CoreV1().Nodes(), nil)
		hear := func(informer.Event[*corev1.Node]) {}
		first, second := nodes.Handle(hear), nodes.Handle(hear)
		stop := running(t.Context(), nodes)
		g.Expect(nodes.WaitForSync(t.Context())).To(Succeed())
		g.Expect(nodes.Status().Handlers).To(Equal(2))
		for range 2 {
			first()
			g.Expect(nodes.Status().Handlers).To(Equal(1))
		}
		stop()
		g.Expect(nodes.Snapshot().Len()).To(Equal(1), "for the other handler")
		second()
		g.Expect(nodes.Status().Handlers).To(BeZero())
		g.Expect(nodes.Snapshot().Len()).To(BeZero())
	})
}
