package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"

	"github.com/homeostat/homeostat/internal/hostclock"
	"github.com/homeostat/homeostat/internal/proxied"
	"github.com/homeostat/homeostat/internal/reconnect"
)

// patienceShare says when a request without an answer is sent again, on the
// second connection: after a third of its time.
const patienceShare = 3

// Client returns a client for [Lease.Client] that has connections of its own to
// the API server of config. A connection can stop working without being closed,
// for example when a firewall drops its state. A leader whose Lease shares a
// connection with its work would then lose the Lease, too.
//
// If a request has no answer after a third of its time, it is sent again on a
// second connection, and the first answer counts. If the second connection
// answers first, the other one is closed. If neither answers, the client asks
// the server's /readyz on a third connection for the cause. The errors of later
// requests without an answer name the cause: for example, that the server is
// slow, that its etcd is not ready, or that no packets come back. If requests go
// through a proxy, most errors without an answer name it.
//
// If requests have failed for half a minute, for example because an API server
// has lost its etcd, the next ones use a new connection, which another API
// server behind the same address may accept. The client does not limit its rate,
// unless config sets a QPS or a RateLimiter. Client sends no request.
//
// Client returns an error if no client can be built from config.
func Client(config *rest.Config) (coordinationclient.LeasesGetter, error) {
	if config == nil {
		return nil, errors.New("making a client for leases: the rest.Config is nil")
	}
	own := rest.CopyConfig(config)
	if own.QPS == 0 && own.RateLimiter == nil {
		own.QPS = -1
	}
	own.UserAgent = cmp.Or(own.UserAgent, rest.DefaultKubernetesUserAgent()) // the transports are made from own
	ways := &twoWays{}
	for _, w := range []**way{&ways.first, &ways.second} {
		made, err := newWay(own)
		if err != nil {
			return nil, fmt.Errorf("making a client for leases: %w", err)
		}
		*w = made
	}
	var err error
	if ways.probe, err = newProbe(own); err != nil {
		return nil, fmt.Errorf("making a client for leases: %w", err)
	}
	if ways.clock, err = hostclock.New(own); err != nil {
		return nil, fmt.Errorf("making a client for leases: %w", err)
	}
	leases, err := coordinationclient.NewForConfigAndClient(own, &http.Client{Transport: ways, Timeout: own.Timeout})
	if err != nil {
		return nil, fmt.Errorf("making a client for leases: %w", err)
	}
	return &client{leases, own, ways.clock}, nil
}

// way is a transport with connections of its own.
type way struct {
	http.RoundTripper
	dialer *connrotation.Dialer
}

func newWay(config *rest.Config) (*way, error) {
	own, dial := rest.CopyConfig(config), config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	w := &way{dialer: connrotation.NewDialer(connrotation.DialFunc(dial))}
	own.Dial = w.dialer.DialContext
	own.Wrap(new(reconnect.Switch).Wrap)
	own.Wrap(proxied.Of(config).Wrap)
	var err error
	w.RoundTripper, err = rest.TransportFor(own)
	return w, err
}

// twoWays consists of two transports, and sends a request again through the
// second if the first does not answer. It is only for requests that may arrive
// twice, such as writes of Leases, whose resourceVersion is a precondition.
type twoWays struct {
	probe *probe
	clock *hostclock.Comparison

	mu            sync.Mutex // guards the fields below
	first, second *way
}

// RoundTrip sends a request through the first transport. If the request has a
// deadline and is not answered after a part of its time, RoundTrip sends it
// through the second transport as well, unless its body cannot be sent twice.
func (t *twoWays) RoundTrip(req *http.Request) (*http.Response, error) {
	t.mu.Lock()
	first, second := t.first, t.second
	t.mu.Unlock()
	sent := time.Now()
	deadline, limited := req.Context().Deadline()
	unrepeatable := req.Body != nil && req.Body != http.NoBody && req.GetBody == nil
	if !limited || unrepeatable {
		return first.RoundTrip(req)
	}
	r := &race{req: req, replies: make(chan reply, 2)}
	r.send(first, req.Body)
	got, err := r.run(second, time.Until(deadline)/patienceShare)
	switch {
	case err != nil && req.Context().Err() != nil: // neither way answers
		first.dialer.CloseAll()
		second.dialer.CloseAll()
		if errors.Is(req.Context().Err(), context.DeadlineExceeded) {
			err = t.probe.explain(err)
		}
	case err == nil && got.way == second:
		t.prefer(second, first)
	}
	if err != nil {
		return nil, t.clock.Explain(req.Context(), err)
	}
	t.probe.answered()
	t.clock.Answered(sent, got.res)
	got.res.Body = &endingBody{ReadCloser: got.res.Body, end: got.end}
	return got.res, nil
}

// prefer sets the order of the transports: requests use fast first, and slow
// only if fast does not answer. It closes the connections of slow.
func (t *twoWays) prefer(fast, slow *way) {
	t.mu.Lock()
	t.first, t.second = fast, slow
	t.mu.Unlock()
	slow.dialer.CloseAll()
}

// race is one request that is sent through one transport or both.
type race struct {
	req     *http.Request
	replies chan reply
	ends    []context.CancelFunc // cancel the requests that were sent
}

type reply struct {
	sent int // 0 for the first request that was sent, 1 for the second
	way  *way
	res  *http.Response
	err  error
	end  context.CancelFunc
}

// send sends the request, with the given body, through w. It does not wait for
// the reply, which is sent to replies.
func (r *race) send(w *way, body io.ReadCloser) {
	ctx, end := context.WithCancel(r.req.Context())
	copied := r.req.Clone(ctx)
	copied.Body = body
	sent := len(r.ends)
	r.ends = append(r.ends, end)
	go func() {
		res, err := w.RoundTrip(copied)
		r.replies <- reply{sent: sent, way: w, res: res, err: err, end: end}
	}()
}

// run returns the first answer or, if every attempt failed, the last error. If
// patience has passed without an answer, it sends the request through second as
// well.
func (r *race) run(second *way, patience time.Duration) (reply, error) {
	timer := time.NewTimer(max(patience, time.Nanosecond))
	defer timer.Stop()
	for open := 1; ; {
		select {
		case <-timer.C:
			if body, err := bodyOf(r.req); err == nil { // otherwise the first way may still answer
				r.send(second, body)
				open++
			}
		case got := <-r.replies:
			if open--; got.err != nil && open > 0 {
				continue
			}
			r.leave(got, open)
			return got, got.err
		}
	}
}

// bodyOf returns a new body for sending req once more. It returns the body of
// req itself if req has no GetBody, because that body is then empty.
func bodyOf(req *http.Request) (io.ReadCloser, error) {
	if req.GetBody == nil {
		return req.Body, nil
	}
	return req.GetBody()
}

// leave ends all requests except for the one that was answered. open is the
// number of requests whose replies have not been read.
func (r *race) leave(got reply, open int) {
	for i, end := range r.ends {
		if i != got.sent || got.err != nil {
			end()
		}
	}
	go func() {
		for range open {
			if reply := <-r.replies; reply.res != nil {
				_ = reply.res.Body.Close()
			}
		}
	}()
}
