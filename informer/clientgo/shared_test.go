package clientgo_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"

	"github.com/homeostat/homeostat/informer/clientgo"
)

// source returns a source of pods, which it has from the beginning.
func source(t *testing.T, pods ...*corev1.Pod) unstreamed {
	t.Helper()
	s := fcache.NewFakeControllerSource()
	t.Cleanup(s.Shutdown)
	for _, p := range pods {
		s.Add(p)
	}
	return unstreamed{s}
}

func newShared(lw cache.ListerWatcher) cache.SharedIndexInformer {
	return newKnown(&clientgo.Informers{}, lw)
}

func newKnown(by *clientgo.Informers, lw cache.ListerWatcher) cache.SharedIndexInformer {
	return by.New(lw, &corev1.Pod{}, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

// start runs shared until stop is called, or the test ends.
func start(t *testing.T, shared cache.SharedInformer) (stop func()) {
	t.Helper()
	return startWith(t, shared, t.Context())
}

func startWith(t *testing.T, shared cache.SharedInformer, ctx context.Context) (stop func()) { //nolint:revive // t first
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { shared.RunWithContext(ctx) })
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	synctest.Wait()
	return stop
}

func handle(g *WithT, shared cache.SharedInformer, h cache.ResourceEventHandler) cache.ResourceEventHandlerRegistration {
	registration, err := shared.AddEventHandler(h)
	g.Expect(err).NotTo(HaveOccurred())
	return registration
}

func TestHandlersFindTheNewState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		from := source(t, pod("a", "1"))
		shared := newShared(from)
		g.Expect(shared.AddIndexers(byNode)).To(Succeed())
		found := 0
		look := func(obj any) {
			p := obj.(*corev1.Pod)
			stored, exists, err := shared.GetStore().GetByKey(p.Namespace + "/" + p.Name)
			g.Expect(exists, err).To(BeTrue())
			g.Expect(stored).To(BeIdenticalTo(obj))
			g.Expect(shared.GetIndexer().ByIndex("node", p.Spec.NodeName)).To(ContainElement(BeIdenticalTo(obj)))
			found++
		}
		handle(g, shared, cache.ResourceEventHandlerFuncs{AddFunc: look, UpdateFunc: func(_, obj any) { look(obj) }})
		start(t, shared)
		moved := pod("a", "1")
		moved.Spec.NodeName = "n"
		from.Modify(moved)
		synctest.Wait()
		g.Expect(found).To(Equal(2))
	})
}

func TestABlockedHandlerDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		from := source(t, pod("a", "1"))
		var informers clientgo.Informers
		shared := newKnown(&informers, from)
		blocked := make(chan struct{})
		slow := handle(g, shared, cache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-blocked }})
		added := 0
		fast := handle(g, shared, cache.ResourceEventHandlerFuncs{AddFunc: func(any) { added++ }})
		stop := start(t, shared)
		for n := range 3000 {
			from.Add(pod("b", fmt.Sprint(n)))
		}
		<-time.After(time.Second)
		synctest.Wait()
		g.Expect(added).To(Equal(3001))
		g.Expect(fast.HasSynced()).To(BeTrue())
		g.Expect(slow.HasSynced()).To(BeFalse())
		status := informers.Status()[0]
		g.Expect(status.Objects).To(Equal(3001))
		g.Expect(status.Handlers).To(Equal(2))
		g.Expect(status.Lag).To(Equal(time.Second))
		close(blocked)
		synctest.Wait()
		g.Expect(slow.HasSynced()).To(BeTrue())
		g.Expect(cache.WaitFor(t.Context(), "", slow.HasSyncedChecker(), shared.HasSyncedChecker())).To(BeTrue())
		g.Expect(informers.Status()[0].Lag).To(BeZero())
		stop()
		g.Expect(informers.Status()).To(BeEmpty())
	})
}

func TestALateHandlerGetsEveryObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		from := source(t, pod("a", "1"), pod("a", "2"))
		shared := newShared(from)
		start(t, shared)
		late := &recorder{}
		registration := handle(g, shared, late)
		synctest.Wait()
		g.Expect(registration.HasSynced()).To(BeTrue())
		from.Delete(pod("a", "1"))
		synctest.Wait()
		g.Expect(late.take()).To(Equal(map[string][]string{
			"a/1": {"add a/1 uid= rv=1 node= app= true", "delete a/1 uid= rv=3 node= app="},
			"a/2": {"add a/2 uid= rv=2 node= app= true"},
		}))
		g.Expect(cache.ShutDownEventHandler(shared, registration)).To(Succeed())
		g.Expect(shared.RemoveEventHandler(registration)).To(Succeed(), "twice")
		from.Delete(pod("a", "2"))
		synctest.Wait()
		g.Expect(late.take()).To(BeEmpty())
	})
}

func TestAStoppedInformerKeepsItsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		shared := newShared(source(t, pod("a", "1")))
		start(t, shared)()
		g.Expect(shared.GetStore().ListKeys()).To(Equal([]string{"a/1"}))
		g.Expect(shared.LastSyncResourceVersion()).To(Equal("1"))
		g.Expect(shared.HasSynced()).To(BeTrue())
	})
}

func TestWritesToAStoreAreNotDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		shared := newShared(source(t, pod("a", "1")))
		seen := &recorder{}
		handle(g, shared, seen)
		store := shared.GetIndexer()
		known := pod("a", "2")
		known.ResourceVersion = "7"
		g.Expect(store.Add(known)).To(Succeed())
		g.Expect(store.Add(pod("b", "3"))).To(Succeed())
		g.Expect(store.Delete(cache.DeletedFinalStateUnknown{Key: "b/3"})).To(Succeed())
		g.Expect(store.ListKeys()).To(Equal([]string{"a/2"}))
		g.Expect(store.ByIndex(cache.NamespaceIndex, "a")).To(HaveLen(1))
		start(t, shared)
		g.Expect(seen.take()).To(Equal(map[string][]string{
			"a/1": {"add a/1 uid= rv=1 node= app= true"},
			"a/2": {"lost a/2 uid= rv=7 node= app= as a/2"},
		}))
		g.Expect(store.Replace([]any{pod("c", "4")}, "9")).To(Succeed())
		g.Expect(store.ListKeys()).To(Equal([]string{"c/4"}))
		g.Expect(store.LastStoreSyncResourceVersion()).To(Equal("9"))
		g.Expect(seen.take()).To(BeEmpty())
	})
}

func TestEqualPartsAreStoredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &server{objects: []any{namedPod("1"), namedPod("2"), namedPod("3")}}
		shared := newShared(server.pods(t))
		start(t, shared)
		first := shared.GetStore().List()[1].(*corev1.Pod).Spec.Containers[0].Image
		second := shared.GetStore().List()[2].(*corev1.Pod).Spec.Containers[0].Image
		g.Expect(first).To(HavePrefix("registry"))
		g.Expect(unsafe.StringData(first)).To(BeIdenticalTo(unsafe.StringData(second)))
	})
}

func TestObjectsOfOthersAreCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		mine := namedPod("1")
		changes := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 10})
		shared := newShared(&cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Pod{*mine}}, nil
			},
			WatchFuncWithContext: func(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) {
				if opts.SendInitialEvents != nil {
					return nil, errors.New("no streaming")
				}
				return changes, nil
			},
		})
		start(t, shared)
		stored := shared.GetStore().List()[0].(*corev1.Pod)
		g.Expect(&stored.Spec.Containers[0]).NotTo(BeIdenticalTo(&mine.Spec.Containers[0]))
		other := namedPod("2")
		changes.Add(other)
		synctest.Wait()
		stored = shared.GetStore().List()[1].(*corev1.Pod)
		g.Expect(stored).NotTo(BeIdenticalTo(other))
		g.Expect(&stored.Spec.Containers[0]).NotTo(BeIdenticalTo(&other.Spec.Containers[0]))
	})
}

func TestModifiedObjectsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var log lines
		shared := newShared(source(t, pod("a", "1")))
		stop := startWith(t, shared, logr.NewContext(t.Context(), log.logger()))
		shared.GetStore().List()[0].(*corev1.Pod).Spec.NodeName = "elsewhere"
		stop()
		g.Expect(log.text()).To(ContainSubstring(`the cached Pod "a/1" was modified in place (spec.nodeName)`))
	})
}

func TestAPanicConcernsOneObject(t *testing.T) {
	for name, set := range map[string]func(cache.SharedIndexInformer) error{
		"Transform panics": func(shared cache.SharedIndexInformer) error {
			return shared.SetTransform(func(obj any) (any, error) {
				if p := obj.(*corev1.Pod); p.Spec.NodeName == "bad" {
					panic("cannot read this")
				}
				return obj, nil
			})
		},
		"index panics": func(shared cache.SharedIndexInformer) error {
			return shared.AddIndexers(cache.Indexers{"node": func(obj any) ([]string, error) {
				if p := obj.(*corev1.Pod); p.Spec.NodeName == "bad" {
					panic("cannot read this")
				}
				return nil, nil
			}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				var log lines
				bad := pod("a", "2")
				bad.Spec.NodeName = "bad"
				from := source(t, pod("a", "1"), bad)
				var informers clientgo.Informers
				shared := newKnown(&informers, from)
				g.Expect(set(shared)).To(Succeed())
				seen := &recorder{}
				registration := handle(g, shared, seen)
				startWith(t, shared, logr.NewContext(t.Context(), log.logger()))
				g.Expect(registration.HasSynced()).To(BeTrue())
				g.Expect(seen.take()).To(Equal(map[string][]string{"a/1": {"add a/1 uid= rv=1 node= app= true"}}))
				g.Expect(log.text()).To(And(ContainSubstring(`"name"="2"`), ContainSubstring("cannot read this")))
				status := informers.Status()[0]
				g.Expect(status.Problems).To(HaveLen(1))
				g.Expect(status.Problems[0].Object).To(Equal(`Pod "a/2"`))
				g.Expect(status.Problems[0].Cause).To(Equal(name))
				from.Modify(pod("a", "2"))
				synctest.Wait()
				g.Expect(seen.take()).To(Equal(map[string][]string{"a/2": {"add a/2 uid= rv=3 node= app= false"}}))
				status = informers.Status()[0]
				g.Expect(status.Problems).To(BeEmpty())
			})
		})
	}
}

func TestTheTransformMayReturnAnotherType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		from := source(t, pod("a", "1"))
		shared := newShared(from)
		g.Expect(shared.SetTransform(func(obj any) (any, error) {
			p := obj.(*corev1.Pod)
			return &metav1.PartialObjectMetadata{ObjectMeta: p.ObjectMeta}, nil
		})).To(Succeed())
		start(t, shared)
		from.Add(pod("a", "2"))
		from.Delete(pod("a", "1"))
		synctest.Wait()
		g.Expect(shared.GetStore().List()).To(ConsistOf(HaveField("ObjectMeta.Name", "2")))
	})
}

func TestErrorsReachTheWatchErrorHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		from := source(t)
		from.ListError = errors.New("not today")
		var informers clientgo.Informers
		shared := newKnown(&informers, from)
		var failures []error
		g.Expect(shared.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) {
			g.Expect(r.TypeDescription()).To(Equal("*v1.Pod"))
			failures = append(failures, err)
		})).To(Succeed())
		start(t, shared)
		g.Expect(failures).To(ConsistOf(MatchError(ContainSubstring("not today"))))
		status := informers.Status()[0]
		g.Expect(status.Reason).To(ContainSubstring("not today"))
	})
}

func TestAStalledWatchIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &server{objects: []any{namedPod("1")}, bookmark: true}
		var informers clientgo.Informers
		shared := newKnown(&informers, server.pods(t))
		start(t, shared)
		g.Expect(shared.HasSynced()).To(BeTrue())
		g.Expect(server.watches.Load()).To(BeEquivalentTo(1))
		<-time.After(5*time.Minute + 10*time.Second)
		synctest.Wait()
		g.Expect(server.watches.Load()).To(BeNumerically(">=", 2))
		status := informers.Status()[0]
		g.Expect(status.Stalls).To(BeEquivalentTo(1))
	})
}

func TestAGatewaysAnswerIsNoList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &server{answer: `{"kind":"PodList","apiVersion":"v1","metadata":{}}`}
		var informers clientgo.Informers
		shared := newKnown(&informers, server.pods(t))
		start(t, shared)
		g.Expect(shared.HasSynced()).To(BeFalse())
		status := informers.Status()[0]
		g.Expect(status.Reason).To(ContainSubstring("neither items nor a resourceVersion"))
	})
}

func namedPod(name string) *corev1.Pod {
	p := pod("a", name)
	p.ResourceVersion = "1"
	p.Spec.Containers = []corev1.Container{{Name: "app", Image: "registry.example.org/team/application:v1.2.3"}}
	return p
}

// server is an API server as a transport of client-go. It streams no lists, and
// its watches stay open.
type server struct {
	objects  []any
	mended   atomic.Bool // the list has only the first object
	answer   string      // of a list, instead of the objects
	bookmark bool        // each watch begins with one
	watches  atomic.Int32
}

// pods returns what lists and watches the pods of the server.
func (s *server) pods(t *testing.T) cache.ListerWatcher {
	t.Helper()
	client, err := rest.NewRESTClient(&url.URL{Scheme: "http", Host: "server"}, "/api/v1", rest.ClientContentConfig{
		GroupVersion: corev1.SchemeGroupVersion,
		Negotiator:   runtime.NewClientNegotiator(scheme.Codecs.WithoutConversion(), corev1.SchemeGroupVersion),
	}, nil, &http.Client{Transport: s})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return cache.NewFilteredListWatchFromClient(client, "pods", "", func(*metav1.ListOptions) {})
}

// RoundTrip implements [http.RoundTripper].
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := func(status int, body io.ReadCloser) (*http.Response, error) {
		return &http.Response{
			StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: body,
			Request: r,
		}, nil
	}
	switch query := r.URL.Query(); {
	case query.Has("sendInitialEvents"):
		return answer(http.StatusBadRequest, io.NopCloser(strings.NewReader("{}")))
	case query.Has("watch"):
		s.watches.Add(1)
		reader, writer := io.Pipe()
		context.AfterFunc(r.Context(), func() { _ = writer.CloseWithError(r.Context().Err()) })
		if s.bookmark {
			go func() {
				_, _ = io.WriteString(writer, `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1",`+
					`"metadata":{"resourceVersion":"2"}}}`+"\n")
			}()
		}
		return answer(http.StatusOK, reader)
	}
	text := s.answer
	if text == "" {
		objects := s.objects
		if s.mended.Load() {
			objects = objects[:1]
		}
		list, err := json.Marshal(map[string]any{
			"kind": "PodList", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": "1"}, "items": objects,
		})
		if err != nil {
			return nil, err
		}
		text = string(list)
	}
	return answer(http.StatusOK, io.NopCloser(strings.NewReader(text)))
}

// lines contains the log.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) logger() logr.Logger {
	return funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, args)
	}, funcr.Options{})
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.ReplaceAll(strings.Join(l.all, "\n"), `\"`, `"`)
}

// A client of client-go decodes a list as a whole, so the other objects are not
// known either.
func TestAnObjectThatClientGoCannotDecodeFailsTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		bad := map[string]any{"metadata": map[string]any{"name": "bad"}, "spec": map[string]any{"containers": "none"}}
		s := &server{objects: []any{namedPod("good"), bad}}
		var by clientgo.Informers
		var failed atomic.Int32
		shared := newKnown(&by, s.pods(t))
		g.Expect(shared.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { failed.Add(1) })).To(Succeed())
		start(t, shared)
		<-time.After(5 * time.Minute)
		g.Expect(shared.HasSynced()).To(BeFalse())
		g.Expect(failed.Load()).To(BeNumerically(">", 1), "the list is tried again and again")
		status := by.Status()[0]
		g.Expect(status.Reason).To(ContainSubstring("PodSpec.items.spec.containers"), "the error has the field, not the object")
		s.mended.Store(true)
		<-time.After(10 * time.Minute)
		g.Expect(shared.HasSynced()).To(BeTrue())
		g.Expect(shared.GetStore().ListKeys()).To(HaveLen(1))
	})
}

// JSON takes several times the processor time.
func TestTheListerWatcherOfTheExampleAsksForProtobuf(t *testing.T) {
	g := NewWithT(t)
	var asked transport
	client := kubernetes.NewForConfigOrDie(&rest.Config{Transport: &asked})
	_, err := cache.ToListerWatcherWithContext(podsOf(client)).ListWithContext(t.Context(), metav1.ListOptions{})
	g.Expect(err).To(MatchError(errNotSent))
	g.Expect(asked.accept).To(HavePrefix(runtime.ContentTypeProtobuf))
}

// transport sends no request, and records which content type was accepted.
type transport struct{ accept string }

var errNotSent = errors.New("not sent")

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.accept = r.Header.Get("Accept")
	return nil, errNotSent
}
