// Package reconnect lets a client leave a connection whose server no longer
// works.
//
// A cluster may have several API servers behind one address. A load balancer
// chooses one of them for each connection, and HTTP/2 sends all requests of a
// client over one connection. So if that server can no longer do its work, but
// still holds its connections, the client never reaches one of the others. For
// example, the server has lost its etcd, or does not know the key that has
// signed the client's token.
package reconnect

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// patience is how long no request may succeed before the connection is left.
// After each time, the wait is twice as long as before, up to longestPause. So a
// server that is the only one, or a cluster without a server that works, gets
// few additional connections.
const (
	patience     = 30 * time.Second
	longestPause = 5 * time.Minute
)

// slow is how long a request must have been without an answer to count as one
// that the server does not answer. A caller may cancel a request earlier for
// reasons of its own.
const slow = time.Second

// Switch decides when the requests of one client leave their connection. The
// zero Switch is ready. It is safe for concurrent use.
type Switch struct {
	mu     sync.Mutex    // guards the fields below
	well   time.Time     // when a request has last succeeded
	failed bool          // whether a request has failed, and none has succeeded since
	due    time.Time     // when the connection is left, if failed
	pause  time.Duration // from the last time to due; 0 if the connection has not been left
}

// Wrap returns a transport that sends requests through next. All transports of
// a client that share their connections should be made by one Switch. If next
// contains a transport of another Switch, that Switch does not count the
// requests, because they do not use the connections of its client.
func (s *Switch) Wrap(next http.RoundTripper) http.RoundTripper { return &transport{s, next} }

type transport struct {
	leaves *Switch
	next   http.RoundTripper
}

// WrappedRoundTripper returns the inner transport, as client-go requires of
// wrappers.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// counted is the key of a value in the context of a request that an outer
// Switch has counted.
type counted struct{}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Context().Value(counted{}) != nil {
		return t.next.RoundTrip(req)
	}
	req = req.WithContext(context.WithValue(req.Context(), counted{}, true)) // a copy of the caller's request
	if pause := t.leaves.leave(); pause > 0 {
		klog.FromContext(req.Context()).V(1).Info("no request succeeds, opening a new connection, "+
			"which another server may accept", "server", req.URL.Host, "nextIn", pause.String())
		req.Close = true // later requests get a new connection; watches on this one continue
	}
	sent := time.Now()
	res, err := t.next.RoundTrip(req)
	switch {
	case err == nil:
		t.leaves.note(sent, isWell(res.StatusCode))
	case isUnanswered(err) && time.Since(sent) >= slow:
		t.leaves.note(sent, false)
	}
	return res, err
}

// isWell reports whether an answer shows that its server works for this client.
// A server that refuses all requests (429, or a status from 500) does not work,
// and neither does a server that does not know the client (401).
func isWell(status int) bool {
	return status < http.StatusInternalServerError &&
		status != http.StatusTooManyRequests && status != http.StatusUnauthorized
}

// isUnanswered reports whether a request has failed because its time was over
// or its caller gave up. Every other failure ends the connection, or is about a
// new one.
func isUnanswered(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// note records whether a request that was sent at the time sent has succeeded.
func (s *Switch) note(sent time.Time, well bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case well:
		s.well, s.failed, s.pause = time.Now(), false, 0
	case !s.failed:
		if sent.Before(s.well) {
			sent = s.well
		}
		s.failed, s.due = true, sent.Add(patience)
	}
}

// leave returns 0 if the next request stays on its connection. Otherwise the
// request is to leave it, and leave returns the time until the connection is
// left again.
func (s *Switch) leave() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.failed || now.Before(s.due) {
		return 0
	}
	s.pause = min(max(patience, 2*s.pause), longestPause)
	s.due = now.Add(s.pause)
	return s.pause
}
