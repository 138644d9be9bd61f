package leader_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
)

// answering is a transport that answers at once.
func answering(code int) transport {
	return func(req *http.Request) (*http.Response, error) { return reply(req, code, "{}"), nil }
}

// unreachable is a transport that cannot make a connection, so it sends no
// request.
func unreachable(req *http.Request) (*http.Response, error) {
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil && trace.GetConn != nil {
		trace.GetConn("api:443")
	}
	return nil, errors.New("connection refused")
}

// connected is a transport that makes a connection and never gets an answer.
func connected(req *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(req.Context())
	trace.GetConn("api:443")
	trace.GotConn(httptrace.GotConnInfo{})
	return deaf(req)
}

// A stop that cut off a request leaves the Lease unchanged, because the request
// may still arrive.
func TestAStopReleasesTheLeaseOnlyIfNoRequestCanArriveAnyMore(t *testing.T) {
	for name, c := range map[string]struct {
		server transport
		method string
		path   string
		rest   time.Duration // between the request and the stop
		freed  bool
	}{
		"a write that was cut off":                   {deaf, http.MethodPut, "/api/v1/x", 0, false},
		"a write that was cut off while it was sent": {connected, http.MethodPut, "/api/v1/x", 0, false},
		"a write whose answer is that of a proxy":    {answering(http.StatusBadGateway), http.MethodPut, "/api/v1/x", 0, false},
		"a write that failed in the server":          {answering(http.StatusInternalServerError), http.MethodPut, "/api/v1/x", 0, false},
		"a write that the server gave up":            {answering(http.StatusGatewayTimeout), http.MethodPut, "/api/v1/x", 0, false},
		"a write that was cut off long ago":          {deaf, http.MethodPut, "/api/v1/x", 16 * time.Second, true},
		"a write that was done":                      {answering(http.StatusOK), http.MethodPut, "/api/v1/x", 0, true},
		"a write that was refused":                   {answering(http.StatusConflict), http.MethodPut, "/api/v1/x", 0, true},
		"a write that was not sent":                  {unreachable, http.MethodPut, "/api/v1/x", 0, true},
		"a proxied request that was cut off":         {deaf, http.MethodPost, "/api/v1/nodes/n/proxy/", 0, false},
		"a read that failed":                         {answering(http.StatusBadGateway), http.MethodGet, "/api/v1/x", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				e := x.elector("a")
				stop := x.Run(func(ctx context.Context) error {
					return e.Run(ctx, func(ctx context.Context) error {
						asking, cancel := context.WithTimeout(ctx, time.Second)
						defer cancel()
						if res, err := through(asking, e, "http://api", c.server, c.method, c.path); err == nil {
							_ = res.Body.Close()
						}
						leaseapi.Wait(c.rest)
						x.Add("a is done")
						<-ctx.Done()
						return nil
					})
				})
				pass(c.rest + 2*time.Second)
				stopped := time.Now()
				stop()
				x.Expect(time.Since(stopped)).To(BeNumerically("<", time.Second), "no replica waits for the Lease to expire")
				b := x.elector("b")
				stopB := x.campaign(b, "b")
				pass(3 * time.Second)
				x.Expect(slices.Contains(x.Read(), "b leads")).To(Equal(c.freed))
				pass(15 * time.Second)
				x.Expect(x.Read()).To(ContainElement("b leads"))
				stopB()
			})
		})
	}
}

// A request that is under way when the function has returned counts as one that
// was cut off.
func TestAStopCountsRequestsThatTheFunctionLeftBehind(t *testing.T) {
	inBubble(t, func(x *fixture) {
		e := x.elector("a")
		ended := make(chan struct{})
		x.Expect(e.Run(x.T.Context(), func(ctx context.Context) error {
			go func() {
				_, _ = through(context.WithoutCancel(ctx), e, "http://api", deaf, http.MethodPut, "/api/v1/x")
				close(ended)
			}()
			synctest.Wait()
			return nil
		})).To(Succeed())
		<-ended
		l, err := x.API.Get("test")
		x.Expect(err).NotTo(HaveOccurred())
		x.Expect(l.Spec.HolderIdentity).To(HaveValue(HavePrefix("a_")))
	})
}

// A replica does not lead again while requests of its own last term may still
// arrive.
func TestAReplicaDoesNotMeetTheRequestsOfItsOwnLastTerm(t *testing.T) {
	for name, end := range map[string]func(x *fixture, l *leaseapi.Link){
		"after a stop": func(x *fixture, _ *leaseapi.Link) {},
		"after a loss": func(x *fixture, l *leaseapi.Link) {
			open := make(chan struct{})
			l.Set(func(l *leaseapi.Link) { l.Cut = open })
			pass(9200 * time.Millisecond) // until just after the window closed
			l.Set(func(l *leaseapi.Link) { l.Cut = nil })
			close(open)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				l := x.API.Link(1)
				e := newElector(x.T, leaseOf(l, "a"), nil)
				var sent, again time.Time
				terms := 0
				work := func(ctx context.Context) error {
					if terms++; terms > 1 {
						again = time.Now()
						<-ctx.Done()
						return nil
					}
					<-time.After(2500 * time.Millisecond) // the Lease was renewed half a second ago
					sent = time.Now()
					_, err := through(ctx, e, "http://api", deaf, http.MethodPut, "/api/v1/x")
					x.Expect(err).To(HaveOccurred())
					<-ctx.Done()
					return nil
				}
				stop := x.Run(func(ctx context.Context) error { return e.Run(ctx, work) })
				pass(3 * time.Second)
				end(x, l)
				if name == "after a stop" {
					stop()
					stop = x.Run(func(ctx context.Context) error { return e.Run(ctx, work) })
				}
				pass(3 * time.Second)
				x.Expect(again).To(BeZero())
				x.Expect(e.String()).NotTo(ContainSubstring("Lease.Identity"), "its own old name is no twin")
				pass(17 * time.Second)
				x.Expect(again.Sub(sent)).To(Equal(14500*time.Millisecond), "when the last renewal before it would have expired")
				x.Expect(e.Ready()).To(Succeed())
				stop()
			})
		})
	}
}

// A release that meets a conflict reads the Lease again: a Lease that another
// client has edited is released nevertheless, and a Lease that another replica
// has taken is not.
func TestALeaseThatWasEditedJustBeforeAStopIsReleased(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(l *coordinationv1.Lease)
		holder string
	}{
		"stamped": {func(l *coordinationv1.Lease) { l.Annotations = map[string]string{"seen": "yes"} }, ""},
		"taken":   {func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("thief") }, "thief"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				e := x.elector("a")
				stop := x.campaign(e, "a")
				pass(5 * time.Second)
				l, err := x.API.Get("test")
				x.Expect(err).NotTo(HaveOccurred())
				c.edit(l)
				_, err = x.API.Update(l)
				x.Expect(err).NotTo(HaveOccurred())
				stop()
				l, err = x.API.Get("test")
				x.Expect(err).NotTo(HaveOccurred())
				x.Expect(ptr.Deref(l.Spec.HolderIdentity, "")).To(Equal(c.holder))
				x.Expect(e.Status().Leader).To(Equal(c.holder))
				x.Expect(x.Read()).To(Equal([]string{"a leads", "a ends: stopping"}))
			})
		})
	}
}

// A call of Run that ends before this replica has led leaves the Lease to the
// other calls.
func TestARunThatEndsWithoutALeadershipLeavesTheReleaseToTheOthers(t *testing.T) {
	inBubble(t, func(x *fixture) {
		stopOther := x.campaign(x.elector("b"), "b")
		pass(time.Second)
		e := x.elector("a")
		stop, stopEarly := x.campaign(e, "a"), x.campaign(e, "early")
		pass(5 * time.Second)
		stopEarly()
		stopOther()
		pass(5 * time.Second)
		stop()
		x.Expect(x.Read()).To(Equal([]string{"b leads", "b ends: stopping", "a leads", "a ends: stopping"}))
		x.Released("test")
	})
}

func TestARunThatBeginsDuringAReleaseLeadsAfterIt(t *testing.T) {
	inBubble(t, func(x *fixture) {
		link, open := x.API.Link(1), make(chan struct{})
		e := newElector(x.T, leaseOf(link, "a"), nil)
		ctx, cancel := context.WithCancel(x.T.Context())
		first := background(func() error { return e.Run(ctx, untilDone(x.Diary, "first")) })
		pass(time.Second)
		link.Set(func(l *leaseapi.Link) { l.Cut = open })
		cancel()
		pass(time.Second)
		stop := x.campaign(e, "second")
		pass(time.Second)
		x.Expect(x.Read()).To(Equal([]string{"first leads", "first ends: stopping"}))
		link.Set(func(l *leaseapi.Link) { l.Cut = nil })
		close(open)
		pass(3 * time.Second)
		x.Expect(first()).To(Succeed())
		stop()
		x.Expect(x.Read()[2:]).To(Equal([]string{"second leads", "second ends: stopping"}))
	})
}
