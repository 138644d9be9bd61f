package wiretap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// A Tap sits between a client and its server. The zero Tap counts requests and
// records writes; it changes no request. It is safe for concurrent use, and its
// hooks are called from many goroutines.
type Tap struct {
	// Before may answer a request in place of the server. If it returns nil,
	// the request passes.
	Before func(*http.Request) *http.Response
	// Committed is called when the server has answered a write (see [IsWrite])
	// with success, before the client receives the answer.
	Committed func(*http.Request)

	mu       sync.Mutex // guards the fields below
	counts   map[string]int
	writes   []string
	finished *sync.Cond // signals that inFlight has decreased
	inFlight int        // number of writes that have not been answered yet
	killed   bool
}

// ErrKilled is the error of every request after [Tap.Kill].
var ErrKilled = errors.New("the client was killed")

// Kill cuts the client off, as if its process had died: every later request
// fails with [ErrKilled]. A write in flight may still reach the server, but if
// the server carries it out, the client gets ErrKilled instead of the answer.
// Reads in flight and open watches continue.
func (t *Tap) Kill() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.killed = true
}

func (t *Tap) isKilled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.killed
}

// Config returns a copy of c whose requests pass through the tap. The copy has
// no rate limit, unless c has a RateLimiter.
func (t *Tap) Config(c *rest.Config) *rest.Config {
	tapped := rest.CopyConfig(c)
	tapped.Wrap(func(base http.RoundTripper) http.RoundTripper { return wire{t, base} })
	tapped.QPS = -1
	return tapped
}

// Counts returns the number of requests by HTTP method. Watches count as WATCH.
func (t *Tap) Counts() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.counts)
}

// Writes returns the writes (see [IsWrite]) that the server has answered with
// success since the last call, as "METHOD path". It waits for writes in flight,
// because other clients may have seen their effects already.
func (t *Tap) Writes() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.inFlight > 0 {
		t.finished.Wait()
	}
	writes := t.writes
	t.writes = nil
	return writes
}

// IsWatch reports whether the request opens a watch.
func IsWatch(r *http.Request) bool {
	watch := r.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
}

// IsWrite reports whether the method of the request is not GET. Such a request
// may change an object. It returns false for requests about objects of
// coordination.k8s.io and events.k8s.io: the Leases and Events of programs.
func IsWrite(r *http.Request) bool {
	return r.Method != http.MethodGet &&
		!strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/") && !strings.HasPrefix(r.URL.Path, "/apis/events.k8s.io/")
}

// Answer returns a response to r with this status and body.
func Answer(r *http.Request, status int, body []byte) *http.Response {
	return &http.Response{
		StatusCode: status, Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
	}
}

// Mute returns a hook that answers the watches of one resource with silence.
// path is the path of the resource's collection in all namespaces. Lists pass.
// A watch that requests the initial events is refused. The client then sends a
// list.
func Mute(path string) func(*http.Request) *http.Response {
	return func(r *http.Request) *http.Response {
		if r.URL.Path != path || !IsWatch(r) {
			return nil
		}
		if r.URL.Query().Has("sendInitialEvents") {
			return Answer(r, http.StatusBadRequest, nil) // the client lists instead
		}
		silence, end := io.Pipe()
		context.AfterFunc(r.Context(), func() { _ = end.CloseWithError(r.Context().Err()) })
		response := Answer(r, http.StatusOK, nil)
		response.Body = silence
		return response
	}
}

// Once returns a hook that calls do only for the first request with this method
// and path that is not a watch. do may answer the request.
func Once(method, path string, do func(*http.Request) *http.Response) func(*http.Request) *http.Response {
	var called atomic.Bool
	return func(r *http.Request) *http.Response {
		if r.Method != method || r.URL.Path != path || IsWatch(r) || !called.CompareAndSwap(false, true) {
			return nil
		}
		return do(r)
	}
}

// For returns a hook that calls do for requests with this method and path,
// except watches, from the first such request until d later. do may answer the
// requests.
func For(
	d time.Duration, method, path string, do func(*http.Request) *http.Response,
) func(*http.Request) *http.Response {
	var end atomic.Int64
	return func(r *http.Request) *http.Response {
		if r.Method != method || r.URL.Path != path || IsWatch(r) {
			return nil
		}
		moment := time.Now()
		end.CompareAndSwap(0, moment.Add(d).UnixNano())
		if moment.UnixNano() >= end.Load() {
			return nil
		}
		return do(r)
	}
}

// Refuse returns the response of a server that refuses r with the given error.
func Refuse(r *http.Request, refusal *apierrors.StatusError) *http.Response {
	status := refusal.Status()
	status.APIVersion, status.Kind = "v1", "Status"
	body, err := json.Marshal(status)
	if err != nil {
		panic(err) // a Status can always be encoded
	}
	return Answer(r, int(status.Code), body)
}

type wire struct {
	tap  *Tap
	base http.RoundTripper
}

// RoundTrip counts a request and passes it on. It does not pass the request on
// if the tap is killed, or if Before returns a response in place of the
// server's.
func (w wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.tap.isKilled() {
		return nil, ErrKilled
	}
	method := r.Method
	if IsWatch(r) {
		method = "WATCH"
	}
	w.tap.mu.Lock()
	if w.tap.counts == nil {
		w.tap.counts = map[string]int{}
	}
	w.tap.counts[method]++
	w.tap.mu.Unlock()
	if w.tap.Before != nil {
		if response := w.tap.Before(r); response != nil {
			return response, nil
		}
	}
	if !IsWrite(r) {
		return w.base.RoundTrip(r)
	}
	response, good, err := w.write(r)
	if !good {
		return response, err
	}
	if w.tap.Committed != nil {
		w.tap.Committed(r)
	}
	if w.tap.isKilled() {
		_ = response.Body.Close() // the client does not get it
		return nil, ErrKilled
	}
	return response, nil
}

// write passes a write on, and records it if the server answers with success.
func (w wire) write(r *http.Request) (response *http.Response, good bool, err error) {
	t := w.tap
	t.mu.Lock()
	if t.finished == nil {
		t.finished = sync.NewCond(&t.mu)
	}
	t.inFlight++
	t.mu.Unlock()
	response, err = w.base.RoundTrip(r)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inFlight--
	t.finished.Broadcast()
	good = err == nil && response.StatusCode < http.StatusBadRequest
	if good {
		t.writes = append(t.writes, r.Method+" "+r.URL.Path)
	}
	return response, good, err
}
