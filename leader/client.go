package leader

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

// patienceShare is the part of a request's time, as a divisor, after which the
// request is sent again on the second connection.
const patienceShare = 3

// Client returns a client for [Lease.Client] that has connections of its own to
// the API server of config. A connection can stop working without being closed,
// for example when a firewall drops its state. A leader whose Lease shares a
// connection with its work would then lose the Lease, too.
//
// If a request has no answer after a third of its time, it is sent again on a
// second connection, and the first answer counts. If the second connection
// answers first, the other one is closed. The client does not limit its rate,
// unless config sets a QPS. Client sends no request.
//
// Errors: a config from which no client can be built.
func Client(config *rest.Config) (coordinationclient.LeasesGetter, error) {
	own := rest.CopyConfig(config)
	if own.QPS == 0 && own.RateLimiter == nil {
		own.QPS = -1
	}
	ways := &twoWays{}
	for _, w := range []**way{&ways.first, &ways.second} {
		made, err := newWay(own)
		if err != nil {
			return nil, fmt.Errorf("making a client for leases: %w", err)
		}
		*w = made
	}
	client, err := coordinationclient.NewForConfigAndClient(own, &http.Client{Transport: ways, Timeout: own.Timeout})
	if err != nil {
		return nil, fmt.Errorf("making a client for leases: %w", err)
	}
	return client, nil
}

// way is a transport whose connections no other transport uses.
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
	var err error
	w.RoundTripper, err = rest.TransportFor(own)
	return w, err
}

// twoWays is a transport that sends a request again by a second way if the
// first one does not answer. It is only for requests that may arrive twice:
// writes of Leases have a resourceVersion as their precondition.
type twoWays struct {
	mu            sync.Mutex // guards the fields below
	first, second *way
}

// RoundTrip sends a request that has a deadline by both ways if necessary.
// Other requests are sent by the first way only.
func (t *twoWays) RoundTrip(req *http.Request) (*http.Response, error) {
	t.mu.Lock()
	first, second := t.first, t.second
	t.mu.Unlock()
	deadline, limited := req.Context().Deadline()
	once := req.Body != nil && req.Body != http.NoBody && req.GetBody == nil
	if !limited || once {
		return first.RoundTrip(req)
	}
	r := &race{req: req, replies: make(chan reply, 2)}
	r.send(first, req.Body)
	got, err := r.run(second, time.Until(deadline)/patienceShare)
	switch {
	case err != nil && req.Context().Err() != nil: // neither way answers
		first.dialer.CloseAll()
		second.dialer.CloseAll()
	case err == nil && got.way == second:
		t.prefer(second, first)
	}
	if err != nil {
		return nil, err
	}
	got.res.Body = &endingBody{ReadCloser: got.res.Body, end: got.end}
	return got.res, nil
}

// prefer makes a way the first one, and closes the connections of the other
// way.
func (t *twoWays) prefer(good, bad *way) {
	t.mu.Lock()
	t.first, t.second = good, bad
	t.mu.Unlock()
	bad.dialer.CloseAll()
}

// race is one request that is sent by up to two ways.
type race struct {
	req     *http.Request
	replies chan reply
	ends    []context.CancelFunc // cancel the requests that were sent
}

type reply struct {
	sent int // its place among the requests that were sent
	way  *way
	res  *http.Response
	err  error
	end  context.CancelFunc
}

// send sends the request by a way, with this body. It does not wait for the
// reply, which arrives in replies.
func (r *race) send(w *way, body io.ReadCloser) {
	ctx, end := context.WithCancel(r.req.Context())
	out := r.req.Clone(ctx)
	out.Body = body
	sent := len(r.ends)
	r.ends = append(r.ends, end)
	go func() {
		res, err := w.RoundTrip(out)
		r.replies <- reply{sent: sent, way: w, res: res, err: err, end: end}
	}()
}

// run returns the first answer or, if every way failed, the last error. If
// there is no answer within patience, it sends the request by the second way,
// too.
func (r *race) run(second *way, patience time.Duration) (reply, error) {
	late := time.NewTimer(max(patience, time.Nanosecond))
	defer late.Stop()
	for open := 1; ; {
		select {
		case <-late.C:
			if body, err := again(r.req); err == nil { // otherwise the first way may still answer
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

// again returns the body of req for sending it once more.
func again(req *http.Request) (io.ReadCloser, error) {
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
			if other := <-r.replies; other.res != nil {
				_ = other.res.Body.Close()
			}
		}
	}()
}
