package informer_test

import (
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
)

// A read in progress does not delay the watch, and a watch that waits for a
// handler does not delay reads.
func TestReadersAndTheWriterDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset(pod("a", "1"), pod("a", "2"))
		pods := informer.For(client.CoreV1().Pods(""), &informer.Options{IndexLabels: []string{"app"}})
		all := informer.NewIndex(pods, func(*corev1.Pod) []string { return []string{"all"} })
		syncsAtOnce(t, g, pods)
		created := 0
		create := func(*corev1.Pod) {
			created++
			name := fmt.Sprint("new-", created)
			_, err := client.CoreV1().Pods("a").Create(t.Context(), pod("a", name), metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			synctest.Wait()
			_, ok := pods.Get(types.NamespacedName{Namespace: "a", Name: name})
			g.Expect(ok).To(BeTrue())
		}
		s := pods.Snapshot()
		each := map[string]func(yield func(*corev1.Pod)){
			"All":       func(yield func(*corev1.Pod)) { s.All()(goOn(yield)) },
			"Namespace": func(yield func(*corev1.Pod)) { s.Namespace("a")(goOn(yield)) },
			"Select":    func(yield func(*corev1.Pod)) { s.Select("a", labels.Everything())(goOn(yield)) },
			"Index.In":  func(yield func(*corev1.Pod)) { all.In(s, "all")(goOn(yield)) },
		}
		for name, read := range each {
			created = len(keys(pods))
			before := created
			read(create)
			g.Expect(created-before).To(Equal(2), "%s shows what there was", name)
		}

		gate := make(chan struct{})
		pods.Handle(func(e informer.Event[*corev1.Pod]) {
			if !e.Initial {
				<-gate
			}
		})
		known := len(keys(pods))
		_, err := client.CoreV1().Pods("a").Create(t.Context(), pod("a", "last"), metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		synctest.Wait()
		g.Expect(pods.Status().Lag).NotTo(BeZero(), "the watch is held up")
		_, ok := pods.Get(types.NamespacedName{Namespace: "a", Name: "last"})
		g.Expect(ok).To(BeTrue())
		g.Expect(keys(pods)).To(HaveLen(known + 1))
		g.Expect(all.Len("all")).To(Equal(known + 1))
		close(gate)
	})
}

// goOn returns a function for an iteration that calls f and continues.
func goOn(f func(*corev1.Pod)) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		f(p)
		return true
	}
}

// counting is a selector that counts how many objects it is asked about.
type counting struct {
	labels.Selector
	asked *int
}

func (c counting) Matches(l labels.Labels) bool {
	*c.asked++
	return c.Selector.Matches(l)
}

func TestSelectUsesIndexesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset()
		for n := range 200 {
			p := pod(fmt.Sprint("ns-", n%2), fmt.Sprint(n))
			p.Labels = map[string]string{"app": fmt.Sprint(n % 20), "tier": fmt.Sprint(n % 4), "other": "x", "all": "y"}
			g.Expect(client.Tracker().Add(p)).To(Succeed())
		}
		pods := informer.For(client.CoreV1().Pods(""), &informer.Options{IndexLabels: []string{"tier", "app", "all"}})
		syncsAtOnce(t, g, pods)
		for _, c := range []struct {
			namespace, selector string
			found, asked        int
		}{
			{"", "app=7", 10, 0},
			{"", "app in (7)", 10, 0},
			{"", "app=7,other=x", 10, 10},
			{"", "tier=3,app=7", 10, 10}, // the narrower one
			{"", "tier=3", 50, 0},
			{"ns-1", "app=7", 10, 0},
			{"ns-0", "app=7", 0, 0},
			{"", "app=99", 0, 0},
			{"", "all=y", 200, 0},
			{"", "other=x", 200, 200}, // not indexed
			{"ns-1", "other=x", 100, 100},
			{"", "app in (7,8)", 20, 200}, // not a single value
		} {
			selector, err := labels.Parse(c.selector)
			g.Expect(err).NotTo(HaveOccurred())
			asked := 0
			g.Expect(names(pods.Snapshot().Select(c.namespace, counting{selector, &asked}))).To(HaveLen(c.found), c.selector)
			g.Expect(asked).To(Equal(c.asked), "%q in %q", c.selector, c.namespace)
		}
	})
}

func TestEqualPartsAreStoredOnceUnlessToldOtherwise(t *testing.T) {
	for name, c := range map[string]struct {
		options informer.Options
		shared  bool
	}{
		"by default": {informer.Options{}, true},
		"off":        {informer.Options{NoSharing: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				var events []any
				for _, n := range []string{"a", "b", "c", "d"} {
					node := versioned(n, n, "5")
					node.Labels = map[string]string{"zone": "1", "size": "large"}
					node.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:status":{}}`)}}
					events = append(events, added(node))
				}
				nodes, _ := scripted(t, &c.options, stream(hold, append(events, listEnd("10"))...))
				stop := running(t.Context(), nodes)
				defer stop()
				g.Expect(nodes.WaitForSync(t.Context())).To(Succeed())
				places := map[uintptr]bool{}
				for n := range nodes.Snapshot().All() {
					g.Expect(n.Labels).To(Equal(map[string]string{"zone": "1", "size": "large"}))
					g.Expect(n.ManagedFields).To(HaveLen(1), "nothing is dropped")
					g.Expect(n.ManagedFields[0].FieldsV1.GetRawString()).To(Equal(`{"f:status":{}}`))
					places[reflect.ValueOf(n.Labels).Pointer()] = true
				}
				if c.shared {
					g.Expect(len(places)).To(BeNumerically("<=", 2), "the first one may have its own")
				} else {
					g.Expect(places).To(HaveLen(4))
				}
			})
		})
	}
}
