package informer_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/informer/clientgo"
	"github.com/homeostat/homeostat/internal/apisim"
)

// running runs in until stop is called. stop returns when Run has returned.
func running(ctx context.Context, in interface {
	Run(ctx context.Context) error
},
) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			panic(err)
		}
	})
}

// scripted returns an informer of what steps answer, in process.
func scripted(t *testing.T, o *informer.Options, steps ...step) (*informer.Informer[*corev1.Node], *script) {
	t.Helper()
	server := newScript(steps...)
	client, _ := clientTo("", server)
	return informer.For(client.CoreV1().Nodes(), o), server
}

// A logbook collects log lines with the time since the test began.
// For how long a streaming list, and then a watch, may be silent.
const (
	streamIdle = 30 * time.Second
	watchIdle  = 5 * time.Minute
)

type logbook struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (l *logbook) context(ctx context.Context) context.Context {
	began := time.Now()
	return logr.NewContext(ctx, funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, fmt.Sprintf("%s %s", time.Since(began), args))
	}, funcr.Options{Verbosity: 1}))
}

func (l *logbook) matching(part string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, line := range l.lines {
		if strings.Contains(line, part) {
			found = append(found, line)
		}
	}
	return found
}

func TestUnreachableServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		refused := transportFunc(func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED })
		client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://gone", Transport: refused, QPS: -1})
		g.Expect(err).NotTo(HaveOccurred())
		nodes := informer.For(client.CoreV1().Nodes(), nil)
		logs := &logbook{}
		stop := running(logs.context(t.Context()), nodes)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		g.Expect(nodes.WaitForSync(ctx)).To(MatchError(And(
			ContainSubstring("first list of nodes"), ContainSubstring("connection refused"))))
		g.Expect(logs.matching("still waiting for the first list")).To(HaveLen(3), "after 10 s, 20 s and 40 s")
		g.Expect(logs.matching("connection refused")).NotTo(BeEmpty())

		began := time.Now()
		stop()
		g.Expect(time.Since(began)).To(BeZero(), "Run must not sleep out the back-off")
	})
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// busy streams an object that changes every second, and never the bookmark.
func busy(w http.ResponseWriter, r *http.Request) {
	for n := 1; r.Context().Err() == nil; n++ {
		stream(end, added(versioned("a", "1", fmt.Sprint(n))))(w, r)
		select {
		case <-r.Context().Done():
		case <-time.After(time.Second):
		}
	}
}

func TestSyncWarningsNameTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		nodes, _ := scripted(t, nil, busy)
		logs := &logbook{}
		stop := running(logs.context(t.Context()), nodes)
		defer stop()
		<-time.After(time.Minute)
		synctest.Wait()
		lines := logs.matching("still waiting for the first list")
		g.Expect(lines).To(HaveLen(3))
		g.Expect(lines[0]).To(And(HavePrefix("10s "), ContainSubstring("objects so far, but not the bookmark"),
			ContainSubstring(`"informer"="nodes"`)))
		g.Expect(lines[1]).To(HavePrefix("20s "))
		g.Expect(lines[2]).To(HavePrefix("40s "))
		g.Expect(nodes.HasSynced()).To(BeFalse())
	})
}

func TestBusyStreamWithoutBookmarkIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		nodes, server := scripted(t, nil, busy, list("900", versioned("a", "1", "890")))
		began := time.Now()
		stop := running(t.Context(), nodes)
		defer stop()
		g.Expect(nodes.WaitForSync(t.Context())).To(Succeed())
		g.Expect(time.Since(began)).To(BeNumerically("~", 10*streamIdle, time.Second))
		g.Expect(server.asked()[:2]).To(Equal([]string{"stream", "list 0"}))
	})
}

func TestFrozenWatchIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		nodes, server := scripted(t, nil,
			stream(hold, added(versioned("a", "1", "5")), listEnd("10"), bookmark("20")),
			stream(hold, deleted(versioned("a", "1", "21")), listEnd("22")))
		logs := &logbook{}
		stop := running(logs.context(t.Context()), nodes)
		defer stop()
		<-time.After(watchIdle - time.Second)
		synctest.Wait()
		g.Expect(server.asked()).To(Equal([]string{"stream"}))
		<-time.After(10 * time.Second)
		synctest.Wait()
		g.Expect(server.asked()).To(ConsistOf("stream", HaveSuffix(" 20")), "goes on, or lists again")
		g.Expect(nodes.Snapshot().Len()).To(BeZero())
		g.Expect(logs.matching("watch stalled")).To(HaveLen(1))
	})
}

func TestWatchThatTheServerForgetsToEndIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		nodes, server := scripted(t, nil, refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid), list("10"))
		stop := running(t.Context(), nodes)
		defer stop()
		<-time.After(11 * time.Minute) // watches last 5 to 10 minutes
		synctest.Wait()
		g.Expect(len(server.asked())).To(BeNumerically(">=", 4))
		g.Expect(server.asked()[3]).To(HavePrefix("stream"), "lists again, since a mute watch proves nothing")
	})
}

func TestRunsOverlapAndStartAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		a := stream(hold, added(versioned("a", "1", "5")), listEnd("10"))
		nodes, server := scripted(t, nil, a, a)
		first := running(t.Context(), nodes)
		second := running(t.Context(), nodes)
		g.Expect(nodes.WaitForSync(t.Context())).To(Succeed())
		synctest.Wait()
		g.Expect(server.asked()).To(HaveLen(1))
		first()
		g.Expect(nodes.HasSynced()).To(BeTrue(), "the second user is still there")
		second()
		g.Expect(nodes.HasSynced()).To(BeFalse())
		g.Expect(nodes.Snapshot().Len()).To(BeZero())
		g.Expect(nodes.LastResourceVersion()).To(BeEmpty())

		third := running(t.Context(), nodes)
		defer third()
		g.Expect(nodes.WaitForSync(t.Context())).To(Succeed())
		g.Expect(nodes.Snapshot().Len()).To(Equal(1))
		g.Expect(server.asked()).To(Equal([]string{"stream", "stream"}))
	})
}

func TestADeletionWhileStoppedIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		nodes, _ := scripted(t, nil,
			stream(hold, added(versioned("a", "1", "5")), added(versioned("b", "2", "6")), listEnd("10")),
			stream(hold, added(versioned("b", "2", "6")), added(versioned("c", "3", "12")), listEnd("20")))
		told := &record{}
		nodes.Handle(told.hear)
		stop := running(t.Context(), nodes)
		g.Expect(nodes.WaitForSync(t.Context())).To(Succeed())
		stop()
		stop = running(t.Context(), nodes)
		defer stop()
		g.Expect(nodes.WaitForSync(t.Context())).To(Succeed())
		g.Expect(told.heard()).To(Equal([]string{"known a/1", "known b/2", "deleted a/1", "known c/3"}))
	})
}

func TestRunWaitsForTheOneThatIsStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		nodes, server := scripted(t, nil, stream(hold, listEnd("10")), stream(hold, listEnd("20")))
		var stops []func()
		for range 20 {
			stops = append(stops, running(t.Context(), nodes))
		}
		synctest.Wait()
		var all sync.WaitGroup
		for _, stop := range stops {
			all.Go(stop)
		}
		again := running(t.Context(), nodes)
		all.Wait()
		synctest.Wait()
		g.Expect(nodes.HasSynced()).To(BeTrue())
		g.Expect(len(server.asked())).To(BeNumerically("<=", 2))
		again()
	})
}

func TestWaitForSyncWithoutRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		nodes, _ := scripted(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g.Expect(nodes.WaitForSync(ctx)).To(MatchError(ContainSubstring("the informer is not running")))
	})
}

func TestHasSyncedWaitsForHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		nodes, _ := scripted(t, nil, stream(hold, added(versioned("a", "1", "5")), listEnd("10")))
		busy := make(chan struct{})
		var stored bool
		nodes.Handle(func(e informer.Event[*corev1.Node]) {
			_, stored = nodes.Get(types.NamespacedName{Name: e.New.Name})
			<-busy
		})
		stop := running(t.Context(), nodes)
		defer stop()
		synctest.Wait()
		g.Expect(stored).To(BeTrue(), "the store has it when the handler hears of it")
		g.Expect(nodes.HasSynced()).To(BeFalse())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g.Expect(nodes.WaitForSync(ctx)).To(MatchError(ContainSubstring("being delivered to the handlers")))
		close(busy)
		synctest.Wait()
		g.Expect(nodes.HasSynced()).To(BeTrue())
	})
}

// deafNodes is a client whose lists do not end with their context.
type deafNodes struct {
	typedcorev1.NodeInterface
	release chan struct{}
}

func (d deafNodes) List(ctx context.Context, o metav1.ListOptions) (*corev1.NodeList, error) {
	<-d.release
	return d.NodeInterface.List(context.WithoutCancel(ctx), o)
}

func TestRunReturnsAfterTheListThatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := deafNodes{fake.NewClientset(node("a")).CoreV1().Nodes(), make(chan struct{})}
		stop := running(t.Context(), informer.For(client, nil))
		<-time.After(2 * streamIdle) // so that it lists
		ended := make(chan struct{})
		go func() {
			stop()
			close(ended)
		}()
		synctest.Wait()
		g.Expect(ended).NotTo(BeClosed(), "a list is under way")
		close(client.release)
		synctest.Wait()
		g.Expect(ended).To(BeClosed())
	})
}

// The last user leaves while a handler is running. The watch ends when the
// handler has returned, and then another watch begins.
func TestAUserThatComesWhileTheLastOneLeavesGetsAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		nodes, server := scripted(t, nil, stream(hold, listEnd("10"), added(versioned("a", "1", "15"))), stream(hold, listEnd("20")))
		busy := make(chan struct{})
		nodes.Handle(func(informer.Event[*corev1.Node]) { <-busy })
		first := running(t.Context(), nodes)
		g.Expect(nodes.WaitForSync(t.Context())).To(Succeed())
		synctest.Wait()
		go first()
		synctest.Wait()
		g.Expect(nodes.HasSynced()).To(BeFalse())
		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g.Expect(nodes.WaitForSync(limited)).To(MatchError(context.DeadlineExceeded))
		second := running(t.Context(), nodes)
		defer second()
		synctest.Wait()
		close(busy)
		synctest.Wait()
		g.Expect(nodes.HasSynced()).To(BeTrue())
		g.Expect(nodes.LastResourceVersion()).To(Equal("20"))
		g.Expect(server.asked()).To(Equal([]string{"stream", "stream"}))
	})
}

// While a handler runs for a long time, the watch is not read, but it can be
// ended.
func TestAWatchIsSilentWhileAHandlerIsAtWork(t *testing.T) {
	handled := make(chan struct{}) // the change is not sent before
	with(t, func(x *fixture) {
		busy := make(chan struct{})
		x.nodes.Handle(func(e informer.Event[*corev1.Node]) {
			if !e.Initial {
				<-busy
			}
		})
		close(handled)
		<-time.After(3 * watchIdle)
		synctest.Wait()
		x.Expect(x.nodes.Status().Stalls).To(BeEquivalentTo(1))
		x.Expect(x.nodes.Status().WatchSince).To(BeZero(), "none is open")
		close(busy)
		x.sees("20", []string{"known a/1", "updated a/1"})
		<-time.After(time.Minute)
		synctest.Wait()
		x.Expect(x.nodes.Status().WatchSince).NotTo(BeZero())
	}, stream(hold, added(versioned("a", "1", "5")), listEnd("10"), bookmark("11"), handled, modified(versioned("a", "1", "20"))))
}

// Servers end watches, and a fake has no server.
func TestTheWatchOfAFakeIsNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		nodes := informer.For(fake.NewClientset(node("a")).CoreV1().Nodes(), nil)
		syncsAtOnce(t, g, nodes)
		<-time.After(24 * time.Hour)
		synctest.Wait()
		g.Expect(nodes.Status().Watches).To(BeEquivalentTo(1))
		g.Expect(nodes.Status().Stalls).To(BeZero())
	})
}

func TestAWrappedInformerHasSeenWhatTheOtherOneHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(HaveOccurred())
		api := kubernetes.NewForConfigOrDie(sim.Admin()).CoreV1().Nodes()
		factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(sim.Config("c")), 0)
		nodes := clientgo.Wrap[*corev1.Node](factory.Core().V1().Nodes().Informer(), nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer factory.Shutdown()
		defer cancel()
		factory.Start(ctx.Done())
		defer running(t.Context(), nodes)()
		seen := func() {
			list, err := api.List(t.Context(), metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			<-time.After(time.Second)
			synctest.Wait()
			g.Expect(nodes.LastResourceVersion()).To(Equal(list.ResourceVersion))
			g.Expect(nodes.Status().LastActivity).To(BeTemporally("~", time.Now(), time.Second))
		}
		for range 2 {
			_, err = api.Create(t.Context(), node("a"), metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			seen()
			<-time.After(time.Minute)
			g.Expect(api.Delete(t.Context(), "a", metav1.DeleteOptions{})).To(Succeed())
			seen()
			<-time.After(time.Minute)
		}
	})
}
