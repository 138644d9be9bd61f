package leader_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader"
)

func fencedClient(t *testing.T, e *leader.Elector, rt transport) kubernetes.Interface {
	t.Helper()
	config := &rest.Config{Host: "http://api", Transport: rt}
	config.ContentType = "application/json"
	client, err := kubernetes.NewForConfig(e.Fence(config))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return client
}

func write(ctx context.Context, client kubernetes.Interface) error {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	_, err := client.CoreV1().ConfigMaps("default").Update(ctx, cm, metav1.UpdateOptions{})
	return err
}

// led runs f in a bubble where e leads over l, and ends the leadership after.
func led(t *testing.T, f func(ctx context.Context, e *leader.Elector, api *leaseapi.API, l *leaseapi.Link)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		api := leaseapi.New(t)
		l := api.Link(1)
		e := newElector(t, leaseOf(l, "a"), nil)
		ctx, cancel := context.WithCancel(t.Context())
		terms := make(chan context.Context, 10)
		wait := background(func() error {
			return e.Run(ctx, func(ctx context.Context) error {
				terms <- ctx
				<-ctx.Done()
				return nil
			})
		})
		f(<-terms, e, api, l)
		cancel()
		NewWithT(t).Expect(wait()).To(Succeed())
	})
}

func TestFenceLetsNothingButReadsThroughWhileNotLeading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		e := newElector(t, leaseOf(leaseapi.New(t).Link(1), "a"), nil)
		var d diary
		client, ctx := fencedClient(t, e, d.Server), t.Context()
		maps, pods := client.CoreV1().ConfigMaps("default"), client.CoreV1().Pods("default")

		_, err := maps.Get(ctx, "x", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		_, err = maps.Create(ctx, &corev1.ConfigMap{}, metav1.CreateOptions{})
		g.Expect(err).To(MatchError(leader.ErrFenced))
		g.Expect(err).To(MatchError(ContainSubstring(`lease "default/test" is not held`)))
		g.Expect(write(ctx, client)).To(MatchError(leader.ErrFenced))
		_, err = maps.Patch(ctx, "x", "application/merge-patch+json", []byte("{}"), metav1.PatchOptions{})
		g.Expect(err).To(MatchError(leader.ErrFenced))
		g.Expect(maps.Delete(ctx, "x", metav1.DeleteOptions{})).To(MatchError(leader.ErrFenced))
		for _, way := range []string{"exec", "attach", "portforward", "proxy"} {
			request := client.CoreV1().RESTClient().Get().Resource("pods").Name("p").SubResource(way)
			g.Expect(request.Do(ctx).Error()).To(MatchError(leader.ErrFenced), way)
		}
		_, err = pods.Get(ctx, "p", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(d.Read()).To(Equal([]string{
			"GET /api/v1/namespaces/default/configmaps/x", "GET /api/v1/namespaces/default/pods/p",
		}))
	})
}

func TestFenceIsOpenWhileLeading(t *testing.T) {
	led(t, func(ctx context.Context, e *leader.Elector, _ *leaseapi.API, _ *leaseapi.Link) {
		g := NewWithT(t)
		var d diary
		client := fencedClient(t, e, d.Server)
		for range 10 {
			pass(time.Minute)
			g.Expect(write(ctx, client)).To(Succeed())
			g.Expect(write(context.Background(), client)).To(Succeed(), "without the leadership's context, too")
		}
		g.Expect(d.Read()).To(HaveLen(20))
	})
}

func TestFenceClosesAtTheRenewDeadline(t *testing.T) {
	led(t, func(ctx context.Context, e *leader.Elector, _ *leaseapi.API, l *leaseapi.Link) {
		g := NewWithT(t)
		var d diary
		client := fencedClient(t, e, d.Server)
		open := make(chan struct{})
		l.Set(func(l *leaseapi.Link) { l.Cut = open })
		pass(10*time.Second - time.Nanosecond)
		g.Expect(write(ctx, client)).To(Succeed())
		pass(time.Nanosecond)
		g.Expect(write(ctx, client)).To(MatchError(context.Canceled))
		g.Expect(context.Cause(ctx)).To(MatchError(leader.ErrFenced))
		g.Expect(write(context.WithoutCancel(ctx), client)).To(MatchError(ContainSubstring("no renewal for 10s")))
		bodiless := client.CoreV1().RESTClient().Delete().Resource("pods").Name("p")
		g.Expect(bodiless.Do(context.WithoutCancel(ctx)).Error()).To(MatchError(leader.ErrFenced))
		close(open)
		l.Set(func(l *leaseapi.Link) { l.Cut = nil })
		pass(time.Minute)
		g.Expect(e.Status().Leading).To(BeTrue(), "leads again")
		g.Expect(write(context.Background(), client)).To(Succeed())
		g.Expect(write(context.WithoutCancel(ctx), client)).To(MatchError(leader.ErrFenced), "an old straggler")
		g.Expect(d.Read()).To(HaveLen(2))
	})
}

func TestRequestEndsInsideTheTrustWindow(t *testing.T) {
	led(t, func(ctx context.Context, e *leader.Elector, _ *leaseapi.API, l *leaseapi.Link) {
		g := NewWithT(t)
		start := time.Now()
		var timeout string
		client := fencedClient(t, e, func(req *http.Request) (*http.Response, error) {
			timeout = req.URL.Query().Get("timeout")
			<-req.Context().Done() // an API server that answers late
			return nil, req.Context().Err()
		})
		open := make(chan struct{})
		l.Set(func(l *leaseapi.Link) { l.Cut = open })
		pass(4 * time.Second)
		err := write(context.Background(), client)
		g.Expect(err).To(MatchError(leader.ErrFenced))
		g.Expect(err).To(MatchError(ContainSubstring("no answer within the trust window")))
		g.Expect(time.Since(start)).To(Equal(10 * time.Second))
		g.Expect(timeout).To(Equal("6s"), "the API server gives up, too")
		close(open)
	})
}

func TestTheTimeoutOfACallerIsNoLongerThanTheTrustWindow(t *testing.T) {
	led(t, func(ctx context.Context, e *leader.Elector, _ *leaseapi.API, _ *leaseapi.Link) {
		var timeout string
		client := fencedClient(t, e, func(req *http.Request) (*http.Response, error) {
			timeout = req.URL.Query().Get("timeout")
			return reply(req, http.StatusOK, `{}`), nil
		})
		g := NewWithT(t)
		for asked, want := range map[string]string{"1s": "1s", "10s": "10s", "11s": "10s", "0s": "10s", "-1s": "10s", "x": "10s"} {
			err := client.CoreV1().RESTClient().Delete().Resource("pods").Name("p").Param("timeout", asked).Do(ctx).Error()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(timeout).To(Equal(want), asked)
		}
	})
}

// client-go asks a transport for the transport that it wraps, for example to
// find the TLS config for an exec.
func TestClientsLookThroughAFence(t *testing.T) {
	g := NewWithT(t)
	e := newElector(t, leaseOf(leaseapi.New(t).Link(1), "a"), nil)
	base := &http.Transport{TLSClientConfig: &tls.Config{ServerName: "api.example"}} //nolint:gosec // never dialed
	rt, err := rest.TransportFor(e.Fence(&rest.Config{Host: "https://api", Transport: base}))
	g.Expect(err).NotTo(HaveOccurred())
	found, err := utilnet.TLSClientConfig(rt)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.ServerName).To(Equal("api.example"))
}

func TestPauseBetweenPermissionAndSocketSendsNothing(t *testing.T) {
	led(t, func(ctx context.Context, e *leader.Elector, _ *leaseapi.API, l *leaseapi.Link) {
		g := NewWithT(t)
		var d diary
		client := fencedClient(t, e, func(req *http.Request) (*http.Response, error) {
			pass(time.Minute) // deaf to contexts, as a stopped process is
			return d.Server(req)
		})
		open := make(chan struct{})
		l.Set(func(l *leaseapi.Link) { l.Cut = open })
		g.Expect(write(context.Background(), client)).To(MatchError(leader.ErrFenced))
		g.Expect(d.Read()).To(BeEmpty())
		close(open)
	})
}

// A transport sends a body again over a new connection if the first one turns
// out to be closed.
func TestABodyThatIsSentAgainIsFenced(t *testing.T) {
	led(t, func(_ context.Context, e *leader.Elector, _ *leaseapi.API, l *leaseapi.Link) {
		g := NewWithT(t)
		client := fencedClient(t, e, func(req *http.Request) (*http.Response, error) {
			pass(time.Minute)
			body, err := req.GetBody()
			if err != nil {
				return nil, err
			}
			sent, err := io.ReadAll(body)
			g.Expect(sent).To(BeEmpty())
			return reply(req, http.StatusOK, "{}"), err
		})
		open := make(chan struct{})
		l.Set(func(l *leaseapi.Link) { l.Cut = open })
		g.Expect(write(context.Background(), client)).To(MatchError(leader.ErrFenced))
		close(open)
	})
}

func TestFenceStaysOpenForWorkThatDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		e := newElector(t, leaseOf(leaseapi.New(t).Link(1), "a"), nil)
		var d diary
		client := fencedClient(t, e, d.Server)
		ctx, cancel := context.WithCancel(t.Context())
		wait := background(func() error {
			return e.Run(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				pass(time.Minute)
				return write(context.WithoutCancel(ctx), client)
			})
		})
		pass(time.Second)
		cancel()
		g.Expect(wait()).To(Succeed())
		g.Expect(d.Read()).To(HaveLen(1))
		g.Expect(write(t.Context(), client)).To(MatchError(leader.ErrFenced), "after the release")
	})
}

// missing is the server's own answer that the Lease does not exist.
const missing = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,` +
	`"details":{"name":"test","group":"coordination.k8s.io","kind":"leases"}}`

func TestElectorsOwnLeasePassesItsFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var d diary
		server := func(req *http.Request) (*http.Response, error) {
			d.Add("%s %s", req.Method, req.URL.Path)
			if req.Method == http.MethodGet {
				return reply(req, http.StatusNotFound, missing), nil
			}
			body, err := io.ReadAll(req.Body)
			return reply(req, http.StatusOK, string(body)), err
		}
		config := &rest.Config{Host: "http://api", Transport: transport(server)}
		config.ContentType = "application/json"
		var late lateLeases
		e := newElector(t, leader.Lease{Client: &late, Namespace: "default", Name: "test", Identity: "a"}, nil)
		late.Interface = kubernetes.NewForConfigOrDie(e.Fence(config))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		g.Expect(e.Run(ctx, func(context.Context) error { return nil })).To(Succeed())
		g.Expect(d.Read()).To(Equal([]string{
			"GET /apis/coordination.k8s.io/v1/namespaces/default/leases/test",
			"POST /apis/coordination.k8s.io/v1/namespaces/default/leases",
			"PUT /apis/coordination.k8s.io/v1/namespaces/default/leases/test",
		}))
	})
}

// hookedClock calls a function when it is asked for as many more times as left
// says.
type hookedClock struct {
	clock.RealClock
	left *atomic.Int32
	hook func()
}

func (c hookedClock) Now() time.Time {
	if c.left.Add(-1) == 0 {
		c.hook()
	}
	return time.Now()
}

// The term ends between the permission and the sending.
func TestARequestWhoseTermEndsBeforeItIsSentIsRefused(t *testing.T) {
	inBubble(t, func(x *fixture) {
		var left atomic.Int32
		e := newElector(x.T, leaseOf(x.API.Link(1), "a"), &leader.Options{Clock: hookedClock{left: &left, hook: func() {
			x.API.Delete("test")
			pass(2 * time.Second)
			x.Expect(x.Read()).To(Equal([]string{"a leads", "a ends: lost"}))
		}}})
		stop := x.campaign(e, "a")
		pass(time.Second)
		body := &closing{Reader: strings.NewReader("x"), closed: new(bool)}
		req, err := http.NewRequestWithContext(x.T.Context(), http.MethodPut, "http://api/api/v1/x", body)
		x.Expect(err).NotTo(HaveOccurred())
		client, err := rest.HTTPClientFor(serializing(e.Fence(&rest.Config{Host: "http://api", Transport: transport(x.Server)})))
		x.Expect(err).NotTo(HaveOccurred())
		left.Store(2) // the first is the permission
		res, err := client.Do(req)
		x.Expect(err).To(MatchError(leader.ErrFenced))
		x.Expect(res).To(BeNil())
		x.Expect(*body.closed).To(BeTrue())
		x.Expect(x.Read()).To(Equal([]string{"a leads", "a ends: lost"}))
		stop()
	})
}

// suspendClock is a clock whose monotonic part stood still for a while, as it
// does while a machine is suspended.
type suspendClock struct {
	clock.RealClock
	asleep *atomic.Int64 // seconds
}

func (c suspendClock) Now() time.Time {
	now := time.Now()
	*(*uint64)(unsafe.Pointer(&now)) += uint64(c.asleep.Load()) << 30 // the seconds of the wall part
	return now
}

// The bubbles of synctest have no monotonic clock, so this test runs outside.
func TestFenceClosesAfterTheMachineWasSuspended(t *testing.T) {
	g := NewWithT(t)
	var asleep atomic.Int64
	e := newElector(t, leaseOf(leaseapi.New(t).Link(1), "a"), &leader.Options{Clock: suspendClock{asleep: &asleep}})
	var d diary
	client := fencedClient(t, e, d.Server)
	g.Expect(e.Run(t.Context(), func(ctx context.Context) error {
		if err := write(ctx, client); err != nil {
			return err
		}
		asleep.Store(60)
		if err := write(ctx, client); !errors.Is(err, leader.ErrFenced) {
			return fmt.Errorf("want it refused, got %w", err)
		}
		return nil
	})).To(Succeed())
	g.Expect(d.Read()).To(HaveLen(1))
}

// ledger is an API server that commits late and checks that no write of an
// earlier term follows one of a later term.
type ledger struct {
	mu      sync.Mutex
	term    int32
	commits int
	faults  []string
}

func (l *ledger) commit(term int32, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commits++
	if term < l.term {
		l.faults = append(l.faults, fmt.Sprintf("%s wrote in term %d after term %d", name, term, l.term))
	}
	l.term = max(l.term, term)
}

func TestNoWriteOfAnEarlierLeaderFollowsOneOfALater(t *testing.T) {
	commits := 0
	for seed := range int64(zombieRun) {
		synctest.Test(t, func(t *testing.T) { commits += zombies(t, seed) })
	}
	NewWithT(t).Expect(commits).To(BeNumerically(">", 300*zombieRun))
}

// zombies runs replicas whose work ignores its context, writes through the
// fence all the time and takes long to end.
func zombies(t *testing.T, seed int64) int {
	r := rand.New(rand.NewSource(seed))
	api := leaseapi.New(t)
	var book ledger
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	for i := range 3 {
		name := fmt.Sprint(i)
		l := api.Link(r.Int63())
		e := newElector(t, leaseOf(l, name), nil)
		cuts := rand.New(rand.NewSource(r.Int63()))
		r := rand.New(rand.NewSource(r.Int63()))
		client := &http.Client{}
		var err error
		config := &rest.Config{Host: "http://api", Transport: book.late(r, name)}
		client.Transport, err = rest.TransportFor(e.Fence(config))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		done.Go(func() { _ = e.Run(ctx, func(ctx context.Context) error { return deafWork(ctx, e, client) }) })
		done.Go(func() { cutting(ctx, l, cuts) })
	}
	pass(20 * time.Minute)
	cancel()
	done.Wait()
	NewWithT(t).Expect(book.faults).To(BeEmpty(), "seed %d", seed)
	return book.commits
}

// late is a transport that is on its way for up to four seconds.
func (l *ledger) late(r *rand.Rand, name string) transport {
	var mu sync.Mutex
	return func(req *http.Request) (*http.Response, error) {
		mu.Lock()
		way := time.Duration(1 + r.Int63n(int64(4*time.Second)))
		mu.Unlock()
		var term int32
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		fmt.Sscan(string(body), &term)
		select {
		case <-req.Context().Done():
			return nil, req.Context().Err()
		case <-time.After(way):
		}
		l.commit(term, name)
		return reply(req, http.StatusOK, "{}"), nil
	}
}

func deafWork(ctx context.Context, e *leader.Elector, client *http.Client) error {
	term := e.Status().Transitions
	deaf := context.WithoutCancel(ctx)
	for after := 0; after < 40; {
		body := bytes.NewBufferString(fmt.Sprint(term))
		req, err := http.NewRequestWithContext(deaf, http.MethodPut, "http://api/x", body)
		if err != nil {
			return err
		}
		if res, err := client.Do(req); err == nil {
			_ = res.Body.Close()
		}
		leaseapi.Wait(time.Second)
		if ctx.Err() != nil {
			after++
		}
	}
	return nil
}

func cutting(ctx context.Context, l *leaseapi.Link, r *rand.Rand) {
	for ctx.Err() == nil {
		leaseapi.Wait(time.Duration(r.Int63n(int64(2 * time.Minute))))
		open := make(chan struct{})
		l.Set(func(l *leaseapi.Link) { l.Cut = open })
		leaseapi.Wait(time.Duration(r.Int63n(int64(time.Minute))))
		l.Set(func(l *leaseapi.Link) { l.Cut = nil })
		close(open)
	}
}

// lateLeases is a client that is set after the elector was made.
type lateLeases struct{ kubernetes.Interface }

func (c *lateLeases) Leases(namespace string) coordinationclient.LeaseInterface {
	return c.CoordinationV1().Leases(namespace)
}
