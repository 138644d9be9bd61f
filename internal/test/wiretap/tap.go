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

// A Tap sits between a client and its server. The zero Tap only counts. It is
// safe for concurrent use; its hooks are called from many goroutines.
type Tap struct {
	// Before may answer in the server's place: nil lets the request pass.
	Before func(*http.Request) *http.Response
	// Committed is called after the server has answered a write with success,
	// before the client knows.
	Committed func(*http.Request)

	mu     sync.Mutex // guards the fields below
	counts map[string]int
	writes []string
	passed *sync.Cond // when there are fewer under way
	under  int        // writes that are under way
	killed bool
}

// ErrKilled is the error of every request after [Tap.Kill].
var ErrKilled = errors.New("the client was killed")

// Kill cuts the client off, as if its process had died: no further request
// reaches the server, and no answer reaches the client.
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

// Config returns a copy of c whose requests go through the tap.
func (t *Tap) Config(c *rest.Config) *rest.Config {
	out := rest.CopyConfig(c)
	out.Wrap(func(next http.RoundTripper) http.RoundTripper { return wire{t, next} })
	out.QPS = -1
	return out
}

// Counts returns the number of requests by HTTP method; watches count as WATCH.
func (t *Tap) Counts() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.counts)
}

// Writes returns the writes that the server has answered with success, as "METHOD
// path", and forgets them. Leases and Events are left out. It waits for writes in
// flight, whose effects others may have seen already.
func (t *Tap) Writes() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.under > 0 {
		t.passed.Wait()
	}
	all := t.writes
	t.writes = nil
	return all
}

// IsWatch reports whether the request opens a watch.
func IsWatch(r *http.Request) bool {
	watch := r.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
}

// IsWrite reports whether the request changes an object that is not about the
// program itself.
func IsWrite(r *http.Request) bool {
	return r.Method != http.MethodGet &&
		!strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/") && !strings.HasPrefix(r.URL.Path, "/apis/events.k8s.io/")
}

// Answer is a response with a body.
func Answer(r *http.Request, status int, body []byte) *http.Response {
	return &http.Response{
		StatusCode: status, Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
	}
}

// Mute answers the watches of one resource with silence; path is that of its
// collection, in all namespaces. The lists pass.
func Mute(path string) func(*http.Request) *http.Response {
	return func(r *http.Request) *http.Response {
		if r.URL.Path != path || !IsWatch(r) {
			return nil
		}
		if r.URL.Query().Has("sendInitialEvents") {
			return Answer(r, http.StatusBadRequest, nil) // list instead
		}
		silence, end := io.Pipe()
		context.AfterFunc(r.Context(), func() { _ = end.CloseWithError(r.Context().Err()) })
		response := Answer(r, http.StatusOK, nil)
		response.Body = silence
		return response
	}
}

// Once calls do for the first request of that method to that path, and for no other; do may answer it.
func Once(method, path string, do func(*http.Request) *http.Response) func(*http.Request) *http.Response {
	var done atomic.Bool
	return func(r *http.Request) *http.Response {
		if r.Method != method || r.URL.Path != path || IsWatch(r) || !done.CompareAndSwap(false, true) {
			return nil
		}
		return do(r)
	}
}

// For calls do for the requests of that method to that path, for so long after the first of them; do may answer them.
func For(
	d time.Duration, method, path string, do func(*http.Request) *http.Response,
) func(*http.Request) *http.Response {
	var end atomic.Int64
	return func(r *http.Request) *http.Response {
		if r.Method != method || r.URL.Path != path || IsWatch(r) {
			return nil
		}
		now := time.Now()
		end.CompareAndSwap(0, now.Add(d).UnixNano())
		if now.UnixNano() >= end.Load() {
			return nil
		}
		return do(r)
	}
}

// Refuse is the response by which a server refuses a request.
func Refuse(r *http.Request, why *apierrors.StatusError) *http.Response {
	status := why.Status()
	status.APIVersion, status.Kind = "v1", "Status"
	body, err := json.Marshal(status)
	if err != nil {
		panic(err) // a Status has nothing that JSON does not
	}
	return Answer(r, int(status.Code), body)
}

type wire struct {
	tap  *Tap
	next http.RoundTripper
}

// RoundTrip counts and passes on.
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
		return w.next.RoundTrip(r)
	}
	response, good, err := w.write(r)
	if !good {
		return response, err
	}
	if w.tap.Committed != nil {
		w.tap.Committed(r)
	}
	if w.tap.isKilled() {
		_ = response.Body.Close() // it is not read
		return nil, ErrKilled
	}
	return response, nil
}

// write passes a write on, and notes it if the server answers with success.
func (w wire) write(r *http.Request) (response *http.Response, good bool, err error) {
	t := w.tap
	t.mu.Lock()
	if t.passed == nil {
		t.passed = sync.NewCond(&t.mu)
	}
	t.under++
	t.mu.Unlock()
	response, err = w.next.RoundTrip(r)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.under--
	t.passed.Broadcast()
	good = err == nil && response.StatusCode < http.StatusBadRequest
	if good {
		t.writes = append(t.writes, r.Method+" "+r.URL.Path)
	}
	return response, good, err
}
