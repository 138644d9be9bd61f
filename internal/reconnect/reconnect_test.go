package reconnect_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/reconnect"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func answer(status int) roundTrip {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Body: http.NoBody}, nil
	}
}

// after returns err when d has passed, or an earlier error of the context.
func after(d time.Duration, err error) roundTrip {
	return func(req *http.Request) (*http.Response, error) {
		select {
		case <-time.After(d):
			return nil, err
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
}

func TestAConnectionIsLeftWhenNoRequestSucceeds(t *testing.T) {
	for name, c := range map[string]struct {
		server roundTrip
		want   []time.Duration // when connections are left, within an hour
	}{
		"200":                           {answer(http.StatusOK), nil},
		"403":                           {answer(http.StatusForbidden), nil},
		"404":                           {answer(http.StatusNotFound), nil},
		"500":                           {answer(http.StatusInternalServerError), growing},
		"429":                           {answer(http.StatusTooManyRequests), growing},
		"401":                           {answer(http.StatusUnauthorized), growing},
		"no answer in time":             {after(time.Hour, nil), growing},
		"given up soon, as by a caller": {after(time.Millisecond, context.Canceled), nil},
		"no connection":                 {after(time.Millisecond, &net.OpError{Op: "dial", Err: errors.New("refused")}), nil},
		"the connection ended, late, and is gone":   {after(8*time.Second, io.ErrUnexpectedEOF), nil},
		"every second request is answered with 500": {alternating(http.StatusInternalServerError, http.StatusOK), nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, left := time.Now(), []time.Duration(nil)
				client := new(reconnect.Switch).Wrap(roundTrip(func(req *http.Request) (*http.Response, error) {
					if req.Close {
						left = append(left, time.Since(began))
					}
					return c.server(req)
				}))
				for at := range 3600 / 10 { // every ten seconds
					<-time.After(max(time.Until(began.Add(time.Duration(at)*10*time.Second)), 1))
					ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
					req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example.com/api", http.NoBody)
					if err != nil {
						t.Fatal(err)
					}
					if res, err := client.RoundTrip(req); err == nil {
						_ = res.Body.Close()
					}
					cancel()
					if req.Close {
						t.Fatal("the caller's request was changed")
					}
				}
				g := NewWithT(t)
				g.Expect(left).To(HaveLen(len(c.want)))
				for i, want := range c.want {
					g.Expect(left[i]).To(BeNumerically("~", want, 21*time.Second), "left %v", left)
				}
			})
		})
	}
}

// growing are the times at which a client leaves its connections while no
// request succeeds: after half a minute, and after pauses of up to five
// minutes.
var growing = []time.Duration{
	30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 13 * time.Minute, 18 * time.Minute,
	23 * time.Minute, 28 * time.Minute, 33 * time.Minute, 38 * time.Minute, 43 * time.Minute, 48 * time.Minute,
	53 * time.Minute, 58 * time.Minute,
}

func alternating(first, second int) roundTrip {
	var n atomic.Int32
	return func(req *http.Request) (*http.Response, error) {
		if n.Add(1)%2 == 1 {
			return answer(first)(req)
		}
		return answer(second)(req)
	}
}

// A balancer gives each new connection to the next of two servers. The first
// one answers 500, and keeps its connections. One of them has a watch, which
// must go on.
func TestTheNextConnectionReachesAnotherServer(t *testing.T) {
	g := NewWithT(t)
	watching := make(chan struct{})
	servers := make([]*httptest.Server, 2)
	for i := range servers {
		servers[i] = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.ProtoMajor != 2:
				w.WriteHeader(http.StatusHTTPVersionNotSupported)
			case strings.HasSuffix(r.URL.Path, "/watch"):
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
				<-watching
				_, _ = io.WriteString(w, "event")
			case i == 0:
				w.WriteHeader(http.StatusInternalServerError)
			}
		}))
		servers[i].EnableHTTP2 = true
		servers[i].StartTLS()
		defer servers[i].Close()
	}
	var connections atomic.Int32
	config := &rest.Config{
		Host: servers[0].URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			next := servers[min(int(connections.Add(1)), 2)-1]
			return (&net.Dialer{}).DialContext(ctx, network, next.Listener.Addr().String())
		},
	}
	inner, err := rest.TransportFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	get := func(path string, closing bool) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, servers[0].URL+path, http.NoBody)
		g.Expect(err).NotTo(HaveOccurred())
		req.Close = closing // as a Switch sends it
		res, err := inner.RoundTrip(req)
		g.Expect(err).NotTo(HaveOccurred())
		return res
	}
	watch := get("/watch", false)
	defer watch.Body.Close()
	for _, c := range []struct {
		closing bool
		status  int
	}{{false, 500}, {false, 500}, {true, 500}, {false, 200}, {false, 200}} {
		res := get("/", c.closing)
		g.Expect(res.StatusCode).To(Equal(c.status))
		g.Expect(res.Body.Close()).To(Succeed())
	}
	g.Expect(connections.Load()).To(BeEquivalentTo(2))
	close(watching)
	g.Expect(io.ReadAll(watch.Body)).To(BeEquivalentTo("event"))
}

// A client with connections of its own is made from the config of another one.
func TestAnInnerSwitchDoesNotCountTheRequestsOfAnOuterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var inner, outer reconnect.Switch
		left, status := 0, http.StatusInternalServerError
		server := roundTrip(func(req *http.Request) (*http.Response, error) {
			if req.Close {
				left++
			}
			return answer(status)(req)
		})
		send := func(through http.RoundTripper, answered int) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example.com/api", http.NoBody)
			g.Expect(err).NotTo(HaveOccurred())
			status = answered
			res, err := through.RoundTrip(req)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(res.Body.Close()).To(Succeed())
		}
		plain, both := inner.Wrap(server), outer.Wrap(inner.Wrap(server))
		send(plain, http.StatusInternalServerError)
		<-time.After(time.Minute)
		send(both, http.StatusOK)
		g.Expect(left).To(BeZero())
		send(plain, http.StatusInternalServerError)
		g.Expect(left).To(Equal(1))
	})
}

// A request that hangs for two minutes shows at its end that no request has
// succeeded for two minutes.
func TestTheTimeOfARequestWithoutAnAnswerCounts(t *testing.T) {
	for name, want := range map[string]int{"alone": 1, "beside one that succeeds": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				var leaves reconnect.Switch
				left := 0
				hanging := leaves.Wrap(after(time.Hour, nil))
				other := leaves.Wrap(roundTrip(func(req *http.Request) (*http.Response, error) {
					if req.Close {
						left++
					}
					return answer(http.StatusOK)(req)
				}))
				send := func(through http.RoundTripper) error {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
					defer cancel()
					req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example.com/api", http.NoBody)
					g.Expect(err).NotTo(HaveOccurred())
					res, err := through.RoundTrip(req)
					if err == nil {
						err = res.Body.Close()
					}
					return err
				}
				ended := make(chan error, 1)
				go func() { ended <- send(hanging) }()
				<-time.After(119 * time.Second)
				if want == 0 {
					g.Expect(send(other)).To(Succeed())
				}
				g.Expect(<-ended).To(MatchError(context.DeadlineExceeded))
				g.Expect(send(other)).To(Succeed())
				g.Expect(left).To(Equal(want))
			})
		})
	}
}
