package informer_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/informer/clientgo"
	"github.com/homeostat/homeostat/internal/apisim"
)

// lateNodes is a client whose watches deliver every event late, and whose lists
// are counted and may fail.
type lateNodes struct {
	typedcorev1.NodeInterface
	late   time.Duration
	lists  atomic.Int64
	limit  atomic.Int64 // of the last list
	faulty atomic.Int64 // how many lists will fail
}

func (l *lateNodes) List(ctx context.Context, o metav1.ListOptions) (*corev1.NodeList, error) {
	l.lists.Add(1)
	l.limit.Store(o.Limit)
	if l.faulty.Add(-1) >= 0 {
		return nil, errors.New("no list today")
	}
	return l.NodeInterface.List(ctx, o)
}

func (l *lateNodes) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	inner, err := l.NodeInterface.Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	events := make(chan watch.Event)
	outer := watch.NewProxyWatcher(events)
	go func() {
		defer close(events)
		defer inner.Stop()
		for e := range inner.ResultChan() {
			select {
			case <-time.After(max(l.late, 1)):
			case <-outer.StopChan():
				return
			}
			select {
			case events <- e:
			case <-outer.StopChan():
				return
			}
		}
	}()
	return outer, nil
}

// A latestWorld is a server with nodes, an informer of the nodes, and another
// client that changes them.
type latestWorld struct {
	*WithT
	t      *testing.T
	client *lateNodes
	nodes  *informer.Informer[*corev1.Node]
	other  typedcorev1.NodeInterface
	admin  kubernetes.Interface
}

func inLatestWorld(t *testing.T, late time.Duration, objects int, f func(w *latestWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(&apisim.Options{NoStreamingLists: true})
		g.Expect(err).NotTo(HaveOccurred())
		admin := kubernetes.NewForConfigOrDie(sim.Admin())
		w := &latestWorld{
			WithT: g, t: t, other: admin.CoreV1().Nodes(), admin: admin,
			client: &lateNodes{
				NodeInterface: kubernetes.NewForConfigOrDie(sim.Config("c")).CoreV1().Nodes(), late: late,
			},
		}
		for i := range objects {
			w.create(fmt.Sprintf("n%04d", i))
		}
		w.nodes = informer.For(w.client, nil)
		stop := running(t.Context(), w.nodes)
		defer stop()
		g.Expect(w.nodes.WaitForSync(t.Context())).To(Succeed())
		w.client.lists.Store(0)
		f(w)
	})
}

func (w *latestWorld) create(name string) {
	w.t.Helper()
	_, err := w.other.Create(w.t.Context(), node(name), metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

func (w *latestWorld) label(name string) {
	w.t.Helper()
	_, err := w.other.Patch(w.t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"labels":{"new":"yes"}}}`),
		metav1.PatchOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

func (w *latestWorld) remove(name string) {
	w.t.Helper()
	w.Expect(w.other.Delete(w.t.Context(), name, metav1.DeleteOptions{})).To(Succeed())
}

// latest waits for the latest state and returns how long that took.
func (w *latestWorld) latest() time.Duration {
	w.t.Helper()
	began := time.Now()
	w.Expect(w.nodes.WaitForLatest(w.t.Context())).To(Succeed())
	return time.Since(began)
}

func TestLatestWaitsForWhatTheServerHas(t *testing.T) {
	const late = 3 * time.Second
	for name, change := range map[string]func(*latestWorld){
		"something new": func(w *latestWorld) { w.create("new") },
		"a change":      func(w *latestWorld) { w.label("n0001") },
		"a departure":   func(w *latestWorld) { w.remove("n0001") },
		"a replacement": func(w *latestWorld) { w.remove("n0001"); w.create("n0001") },
		"something new, and then an object of a different kind": func(w *latestWorld) {
			w.create("new")
			_, err := w.admin.CoreV1().Namespaces().Create(w.t.Context(),
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, metav1.CreateOptions{})
			w.Expect(err).NotTo(HaveOccurred())
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLatestWorld(t, late, 3, func(w *latestWorld) {
				change(w)
				w.Expect(w.latest()).To(And(BeNumerically(">=", late), BeNumerically("<", 3*late)))
				have, want := map[string]string{}, map[string]string{}
				for n := range w.nodes.Snapshot().All() {
					have[n.Name] = n.ResourceVersion
				}
				list, err := w.other.List(w.t.Context(), metav1.ListOptions{})
				w.Expect(err).NotTo(HaveOccurred())
				for _, n := range list.Items {
					want[n.Name] = n.ResourceVersion
				}
				w.Expect(have).To(Equal(want))
			})
		})
	}
}

func TestLatestNeedsNoEventWhereNothingHasChanged(t *testing.T) {
	inLatestWorld(t, time.Hour, 3, func(w *latestWorld) {
		w.Expect(w.latest()).To(BeZero())
		w.Expect(w.client.lists.Load()).To(Equal(int64(1)))
	})
}

func TestLatestDoesNotWaitForAnObjectThatWasDeletedMeanwhile(t *testing.T) {
	inLatestWorld(t, 2*time.Second, 3, func(w *latestWorld) {
		w.create("new")
		done := make(chan time.Duration, 1)
		go func() { done <- w.latest() }()
		synctest.Wait() // it has listed
		w.label("n0002")
		w.remove("new")
		w.Expect(<-done).To(BeNumerically("<", 8*time.Second))
	})
}

func TestLatestOfAKindThatChangesAllTheTimeIsNotListedWhole(t *testing.T) {
	inLatestWorld(t, 0, 501, func(w *latestWorld) {
		w.create("new")
		w.Expect(w.latest()).To(BeNumerically("<", time.Second))
		w.Expect(w.client.lists.Load()).To(Equal(int64(1)), "one page, and then an event")
	})
	inLatestWorld(t, time.Hour, 501, func(w *latestWorld) {
		w.Expect(w.latest()).To(BeNumerically("<=", time.Second))
		w.Expect(w.client.lists.Load()).To(BeNumerically("<=", 3), "all pages: the watch is silent")
	})
}

func TestLatestRepeatsRequestsThatFail(t *testing.T) {
	inLatestWorld(t, 0, 3, func(w *latestWorld) {
		w.client.faulty.Store(2)
		w.Expect(w.latest()).To(Equal(3 * 800 * time.Millisecond))
		w.client.faulty.Store(1000)
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		err := w.nodes.WaitForLatest(ctx)
		w.Expect(err).To(MatchError(ContainSubstring("no list today")))
		w.Expect(err).To(MatchError(ContainSubstring("as new as the server")))
	})
}

func TestLatestSaysWhatIsMissing(t *testing.T) {
	inLatestWorld(t, time.Hour, 3, func(w *latestWorld) {
		w.create("new")
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		err := w.nodes.WaitForLatest(ctx)
		w.Expect(err).To(MatchError(context.DeadlineExceeded))
		w.Expect(err).To(MatchError(ContainSubstring("1 objects are not up to date with resourceVersion")))
	})
}

func TestLatestOfFakesAndWrappedInformers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset(node("a"))
		nodes := informer.For(client.CoreV1().Nodes(), nil)
		stop := running(t.Context(), nodes)
		defer stop()
		g.Expect(nodes.WaitForLatest(t.Context())).To(Succeed())

		factory := informers.NewSharedInformerFactory(client, 0)
		wrapped := clientgo.Wrap[*corev1.Node](factory.Core().V1().Nodes().Informer(), nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer factory.Shutdown()
		defer cancel()
		factory.Start(ctx.Done())
		stopWrapped := running(t.Context(), wrapped)
		defer stopWrapped()
		g.Expect(wrapped.WaitForLatest(t.Context())).To(MatchError(ContainSubstring("make the informer with For")))
	})
}

// A request that is repeated is logged to the log of the run, or to klog's if
// no run is active.
func TestRequestsForTheLatestStateThatFailAreLogged(t *testing.T) {
	inLatestWorld(t, 0, 3, func(w *latestWorld) {
		logs := &logbook{}
		nodes := informer.For(w.client, nil)
		stop := running(logs.important(w.t.Context()), nodes)
		defer stop()
		w.Expect(nodes.WaitForSync(w.t.Context())).To(Succeed())
		w.client.faulty.Store(1)
		w.Expect(nodes.WaitForLatest(w.t.Context())).To(Succeed())
		w.Expect(logs.lines).To(ConsistOf(And(ContainSubstring("cannot determine the server's resourceVersion, retrying"),
			ContainSubstring("no list today"), ContainSubstring(`"informer"="nodes"`))))
	})
}

// The context of a request is freed when the request has ended.
func TestTheContextsOfRequestsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, &apisim.Options{Shards: true, NoStreamingLists: true})
		var lists []context.Context
		config := d.sim.Config("c")
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return transportFunc(func(req *http.Request) (*http.Response, error) {
				if req.URL.Query().Get("watch") == "" {
					lists = append(lists, req.Context())
				}
				return next.RoundTrip(req)
			})
		})
		d.in = informer.For(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(""), nil)
		d.run(t.Context())
		synctest.Wait()
		for shard := range 2 {
			_, err := d.parts().AddShards(t.Context(), shardOf(shard))
			d.Expect(err).NotTo(HaveOccurred())
		}
		d.Expect(d.in.WaitForLatest(t.Context())).To(Succeed())
		_, err := d.parts().ServerResourceVersion(t.Context())
		d.Expect(err).NotTo(HaveOccurred())
		for range inBurst {
			d.in.IsDeleted(t.Context(), types.NamespacedName{Namespace: namespacesOfShards[1][0], Name: "none"})
		}
		d.Expect(len(lists)).To(BeNumerically(">=", 5))
		for n, request := range lists {
			d.Expect(request.Err()).To(HaveOccurred(), "request %d", n)
		}
		d.stop()
	})
}

// For each namespace, only the events of its own watch count.
func TestLatestOfNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(HaveOccurred())
		admin, core := kubernetes.NewForConfigOrDie(sim.Admin()).CoreV1(), kubernetes.NewForConfigOrDie(sim.Config("c")).CoreV1()
		for _, namespace := range []string{"a", "b"} {
			_, err := admin.ConfigMaps(namespace).Create(t.Context(), configMap(namespace, "1"), metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
		}
		in := informer.ForNamespaces(core.ConfigMaps, &informer.Options{Namespaces: []string{"a", "b"}})
		defer running(t.Context(), in)()
		g.Expect(in.WaitForSync(t.Context())).To(Succeed())
		_, err = admin.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		began := time.Now()
		g.Expect(in.WaitForLatest(t.Context())).To(Succeed())
		g.Expect(in.WaitForObject(t.Context(), types.NamespacedName{Namespace: "a", Name: "1"})).To(Succeed())
		g.Expect(time.Since(began)).To(BeZero(), "there is nothing to wait for")
	})
}

func TestLatestIsNotReachedByAWatchThatEnds(t *testing.T) {
	inLatestWorld(t, time.Hour, 3, func(w *latestWorld) {
		nodes := informer.For(w.client, nil)
		stop := running(w.t.Context(), nodes)
		w.Expect(nodes.WaitForSync(w.t.Context())).To(Succeed())
		w.create("new")
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- nodes.WaitForLatest(ctx) }()
		synctest.Wait()
		stop()
		w.Expect(<-done).To(MatchError(context.DeadlineExceeded))
	})
}

// waitFor waits for the latest state of one node and returns how long that
// took.
func (w *latestWorld) waitFor(name string) time.Duration {
	w.t.Helper()
	began := time.Now()
	w.Expect(w.nodes.WaitForObject(w.t.Context(), types.NamespacedName{Name: name})).To(Succeed())
	return time.Since(began)
}

func TestTheLatestStateOfOneObjectDoesNotWaitForOthers(t *testing.T) {
	const late = 3 * time.Second
	for name, change := range map[string]func(*latestWorld){
		"something new": func(w *latestWorld) { w.create("n") },
		"a change":      func(w *latestWorld) { w.label("n") },
		"a departure":   func(w *latestWorld) { w.remove("n") },
		"a replacement": func(w *latestWorld) { w.remove("n"); w.create("n") },
	} {
		t.Run(name, func(t *testing.T) {
			inLatestWorld(t, late, 3, func(w *latestWorld) {
				if name != "something new" {
					w.create("n")
					<-time.After(2 * late)
				}
				change(w)
				w.Expect(w.waitFor("n0001")).To(BeZero(), "another object")
				w.Expect(w.waitFor("none")).To(BeZero(), "no object")
				w.Expect(w.waitFor("n")).To(And(BeNumerically(">", late/2), BeNumerically("<", 3*late)))
				cached, there := w.nodes.Get(types.NamespacedName{Name: "n"})
				now, err := w.other.Get(w.t.Context(), "n", metav1.GetOptions{})
				w.Expect(there).To(Equal(err == nil))
				if there {
					w.Expect(cached.ResourceVersion).To(Equal(now.ResourceVersion))
				}
				w.Expect(w.client.lists.Load()).To(Equal(int64(3)), "one request for each")
			})
		})
	}
}

func TestAnObjectThatLeavesTheScopeHasNoLatestState(t *testing.T) {
	inLatestWorld(t, 3*time.Second, 1, func(w *latestWorld) {
		w.nodes = informer.For(w.client, &informer.Options{LabelSelector: "new!=yes", FieldSelector: "metadata.name!=x"})
		stop := running(w.t.Context(), w.nodes)
		defer stop()
		w.Expect(w.nodes.WaitForSync(w.t.Context())).To(Succeed())
		w.label("n0000")
		w.waitFor("n0000")
		w.Expect(w.nodes.Snapshot().Len()).To(BeZero())
	})
}

func TestTheLatestStateOfOneObjectRepeatsRequestsThatFail(t *testing.T) {
	inLatestWorld(t, 0, 3, func(w *latestWorld) {
		w.client.faulty.Store(2)
		w.waitFor("n0001")
		w.Expect(w.client.lists.Load()).To(Equal(int64(3)))
		w.client.faulty.Store(1000)
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		w.Expect(w.nodes.WaitForObject(ctx, types.NamespacedName{Name: "n0001"})).
			To(MatchError(And(ContainSubstring("no list today"), ContainSubstring("deadline exceeded"))))
	})
}

func TestTheLatestStateOfAnObjectOfAFake(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	nodes := informer.For(client.CoreV1().Nodes(), nil)
	defer running(t.Context(), nodes)()
	g.Expect(nodes.WaitForObject(t.Context(), types.NamespacedName{Name: "a"})).To(Succeed())
	g.Expect(nodes.WaitForObject(t.Context(), types.NamespacedName{Namespace: "d", Name: "a"})).To(Succeed())
}
