package informer_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
)

// inBurst is the number of calls after which the server is asked.
const inBurst = 8

func (w *latestWorld) isDeleted(name string) bool {
	return w.nodes.IsDeleted(w.t.Context(), types.NamespacedName{Name: name})
}

// burst makes calls about a deleted node, and returns the answer to the last
// one.
func (w *latestWorld) burst() (deleted bool) {
	for range inBurst {
		deleted = w.isDeleted("none")
	}
	return deleted
}

func TestAFewDeletionsAreLeftToTheirOwnRequests(t *testing.T) {
	inLatestWorld(t, 0, 3, func(w *latestWorld) {
		for range 3 * inBurst {
			w.Expect(w.isDeleted("none")).To(BeFalse())
			<-time.After(time.Second)
		}
		w.Expect(w.client.lists.Load()).To(BeZero())
	})
}

func TestDeletionsOfATenthOfASecondAreMany(t *testing.T) {
	inLatestWorld(t, 0, 3, func(w *latestWorld) {
		for n := range inBurst {
			w.Expect(w.isDeleted("none")).To(Equal(n == inBurst-1))
			<-time.After(100 * time.Millisecond)
		}
	})
}

func TestManyDeletionsAreConfirmedByOneRequest(t *testing.T) {
	inLatestWorld(t, 0, 3, func(w *latestWorld) {
		w.Expect(w.burst()).To(BeTrue())
		for i := range 1000 {
			w.Expect(w.isDeleted(fmt.Sprint("gone-", i))).To(BeTrue())
			w.Expect(w.isDeleted("n0001")).To(BeFalse(), "it is cached")
		}
		w.Expect(w.client.lists.Load()).To(Equal(int64(1)))
		<-time.After(100 * time.Millisecond)
		w.Expect(w.isDeleted("none")).To(BeTrue())
		w.Expect(w.client.lists.Load()).To(Equal(int64(1)))
		<-time.After(1)
		w.Expect(w.isDeleted("none")).To(BeTrue())
		w.Expect(w.client.lists.Load()).To(Equal(int64(2)), "nothing older than 100 ms counts")
	})
}

func TestDeletionsInANamespaceAreConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(HaveOccurred())
		core := kubernetes.NewForConfigOrDie(sim.Config("c")).CoreV1()
		for in, proven := range map[*informer.Informer[*corev1.ConfigMap]][]string{
			informer.For(core.ConfigMaps(""), nil):                                                     {"a", "b", "c"},
			informer.ForNamespaces(core.ConfigMaps, &informer.Options{Namespaces: []string{"a", "b"}}): {"a", "b"},
		} {
			stop := running(t.Context(), in)
			g.Expect(in.WaitForSync(t.Context())).To(Succeed())
			var deleted []string
			for _, namespace := range []string{"a", "b", "c"} {
				known := false
				for range inBurst {
					known = in.IsDeleted(t.Context(), types.NamespacedName{Namespace: namespace, Name: "none"})
				}
				if known {
					deleted = append(deleted, namespace)
				}
			}
			g.Expect(deleted).To(Equal(proven))
			stop()
		}
	})
}

func TestALateCacheProvesNothing(t *testing.T) {
	for name, change := range map[string]func(*latestWorld){
		"something new": func(w *latestWorld) { w.create("none") },
		"a replacement": func(w *latestWorld) { w.remove("n0001"); w.create("n0001") },
		"a departure":   func(w *latestWorld) { w.remove("n0001") },
	} {
		for _, objects := range []int{3, 150} { // of one page, and of more
			t.Run(fmt.Sprint(name, " of ", objects), func(t *testing.T) {
				const late = 3 * time.Second
				inLatestWorld(t, late, objects, func(w *latestWorld) {
					change(w)
					w.Expect(w.burst()).To(BeFalse())
					lists := w.client.lists.Load()
					w.Expect(w.burst()).To(BeFalse())
					w.Expect(w.client.lists.Load()).To(Equal(lists), "for a second nothing is asked")
					<-time.After(2 * late)
					w.Expect(w.burst()).To(Equal(name != "something new"), "now it is as new as the server")
				})
			})
		}
	}
}

func TestAWatchThatDeliversEventsProvesDeletionsInLargeCaches(t *testing.T) {
	inLatestWorld(t, 20*time.Millisecond, 150, func(w *latestWorld) {
		w.label("n0001") // the event is under way
		began := time.Now()
		w.Expect(w.burst()).To(BeTrue())
		w.Expect(time.Since(began)).To(BeNumerically(">", 15*time.Millisecond))
		w.Expect(w.client.lists.Load()).To(Equal(int64(1)), "a page of it")
		w.Expect(w.client.limit.Load()).To(Equal(int64(1)))
	})
}

func TestCallsAtOnceWaitForOneRequest(t *testing.T) {
	inLatestWorld(t, 20*time.Millisecond, 150, func(w *latestWorld) {
		w.label("n0001")
		var asking sync.WaitGroup
		deleted := make(chan bool, 100)
		for range cap(deleted) {
			asking.Go(func() { deleted <- w.isDeleted("none") })
		}
		asking.Wait()
		close(deleted)
		count := 0
		for d := range deleted {
			if d {
				count++
			}
		}
		w.Expect(count).To(Equal(cap(deleted)-inBurst+1), "all but the first few")
		w.Expect(w.client.lists.Load()).To(Equal(int64(1)))
	})
}

func TestARecreatedObjectIsNotDeleted(t *testing.T) {
	inLatestWorld(t, 30*time.Millisecond, 3, func(w *latestWorld) { // later than nothing, in time for a proof
		w.remove("n0001")
		w.create("n0001")
		var deleted []bool
		for range inBurst {
			deleted = append(deleted, w.isDeleted("n0001"))
		}
		w.Expect(deleted).NotTo(ContainElement(BeTrue()))
	})
}

func TestWhatCannotBeProvenIsFalse(t *testing.T) {
	inLatestWorld(t, 0, 3, func(w *latestWorld) {
		w.client.faulty.Store(1)
		w.Expect(w.burst()).To(BeFalse(), "the request fails")
		<-time.After(2 * time.Second)
		w.Expect(w.burst()).To(BeTrue())

		selective := informer.For(w.client, &informer.Options{LabelSelector: "a=b"})
		stop := running(w.t.Context(), selective)
		w.Expect(selective.WaitForSync(w.t.Context())).To(Succeed())
		for range 2 * inBurst {
			w.Expect(selective.IsDeleted(w.t.Context(), types.NamespacedName{Name: "n0001"})).To(BeFalse(), "it is not selected")
		}
		stop()
		ended, cancel := context.WithCancel(w.t.Context())
		cancel()
		<-time.After(2 * time.Second)
		for range inBurst - 1 {
			w.isDeleted("none")
		}
		w.Expect(w.nodes.IsDeleted(ended, types.NamespacedName{Name: "none"})).To(BeFalse())
		w.Expect(w.isDeleted("none")).To(BeTrue(), "one that was given up says nothing of the server")
	})
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		nodes := informer.For(fake.NewClientset(node("a")).CoreV1().Nodes(), nil)
		g.Expect(nodes.IsDeleted(t.Context(), types.NamespacedName{Name: "none"})).To(BeFalse(), "it does not run")
		stop := running(t.Context(), nodes)
		g.Expect(nodes.WaitForSync(t.Context())).To(Succeed())
		for range 2 * inBurst {
			g.Expect(nodes.IsDeleted(t.Context(), types.NamespacedName{Name: "none"})).To(BeFalse(), "a fake")
		}
		stop()
	})
}

func TestAnInformerThatHasEndedProvesNothing(t *testing.T) {
	inLatestWorld(t, 0, 3, func(w *latestWorld) {
		nodes := informer.For(w.client, nil)
		stop := running(w.t.Context(), nodes)
		w.Expect(nodes.WaitForSync(w.t.Context())).To(Succeed())
		for range inBurst {
			nodes.IsDeleted(w.t.Context(), types.NamespacedName{Name: "none"})
		}
		w.Expect(nodes.IsDeleted(w.t.Context(), types.NamespacedName{Name: "none"})).To(BeTrue())
		stop() // the cache is empty now
		w.Expect(nodes.IsDeleted(w.t.Context(), types.NamespacedName{Name: "n0001"})).To(BeFalse())
	})
}

func TestAServerThatWasRestoredProvesNothing(t *testing.T) {
	inLatestWorld(t, 0, 3, func(w *latestWorld) {
		client := &restoredNodes{lateNodes: w.client}
		nodes := informer.For(client, nil)
		defer running(w.t.Context(), nodes)()
		w.Expect(nodes.WaitForSync(w.t.Context())).To(Succeed())
		client.rv = "1"
		for range 2 * inBurst {
			w.Expect(nodes.IsDeleted(w.t.Context(), types.NamespacedName{Name: "none"})).To(BeFalse())
		}
	})
}

// restoredNodes lists as a server that was restored to an earlier state.
type restoredNodes struct {
	*lateNodes
	rv string
}

func (r *restoredNodes) List(ctx context.Context, o metav1.ListOptions) (*corev1.NodeList, error) {
	list, err := r.lateNodes.List(ctx, o)
	if err == nil && r.rv != "" {
		list.ResourceVersion = r.rv
	}
	return list, err
}

// Objects of a different kind have changed since: the watch is silent, and one
// page shows that the watch has nothing to deliver.
func TestASilentWatchProvesDeletionsInSmallCaches(t *testing.T) {
	for objects, proven := range map[int]bool{3: true, 100: true, 101: false} {
		inLatestWorld(t, 0, objects, func(w *latestWorld) {
			_, err := w.admin.CoreV1().Namespaces().Create(w.t.Context(),
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, metav1.CreateOptions{})
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(w.burst()).To(Equal(proven), "%d objects", objects)
			w.Expect(w.client.lists.Load()).To(Equal(int64(1)))
		})
	}
}
