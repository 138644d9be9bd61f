package leader

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/ownwrites"
	"github.com/homeostat/homeostat/leader/internal/record"
)

// Fence returns a copy of config whose clients write only while this replica
// leads. Once the renew deadline may have passed, every request other than GET,
// HEAD and OPTIONS is refused with an error that wraps [ErrFenced]. Before
// that, such a request gets a deadline at the end of the trust window, in the
// client and, as the timeout parameter, in the server. Reads pass, including
// watches, and so do reviews such as TokenReview, which change nothing.
//
// A followed log, and a proxied request to a pod, node or service, is refused
// in the same way, regardless of its method. It must be answered within the
// trust window, and ends with the leadership. Requests that switch protocols,
// such as exec, attach and portforward, are always refused, since a transport
// cannot end them: open them from the original config, with the context of the
// leadership, and close them when it ends.
//
// A request made with the context of an earlier leadership is refused even if
// this replica leads again. Make the elector's own client, and clients that may
// write at any time, such as an event recorder's, from the original config.
func (e *Elector) Fence(config *rest.Config) *rest.Config {
	fenced := rest.CopyConfig(config)
	base := ""
	if host, _, err := rest.DefaultServerUrlFor(config); err == nil {
		base = strings.TrimSuffix(host.Path, "/")
	}
	fenced.Wrap(func(next http.RoundTripper) http.RoundTripper { return &fence{elector: e, next: next, base: base} })
	return fenced
}

// permit returns the term under which a write may be sent, and how long it may
// take.
func (e *Elector) permit(ctx context.Context) (*term, time.Duration, error) {
	t := e.current.Load()
	if own, ok := ctx.Value(termKey{}).(*term); ok && own.elector == e {
		t = own
	}
	if t == nil {
		return nil, 0, fmt.Errorf("%w: lease %q is not held", ErrFenced, e.candidate.lease.key())
	}
	left := t.left()
	if left == 0 {
		return nil, 0, t.refusal()
	}
	return t, left, nil
}

// fence is the transport of a fenced client.
type fence struct {
	elector *Elector
	next    http.RoundTripper
	base    string // the path of the API server
}

func (f *fence) RoundTrip(req *http.Request) (*http.Response, error) {
	kind := kindOf(req, f.base)
	if record.IsOwn(req.Context(), f.elector) || kind == reads {
		return f.next.RoundTrip(req)
	}
	res, err := f.send(req, kind)
	if err != nil {
		return nil, fmt.Errorf("sending %s %s: %w", req.Method, req.URL.Path, err)
	}
	return res, nil
}

// send sends a request that is not a read, if it may be sent now.
func (f *fence) send(req *http.Request, kind kind) (*http.Response, error) {
	t, left, err := f.elector.permit(req.Context())
	if err == nil {
		err = req.Context().Err()
	}
	if err == nil && kind == upgrades {
		err = errUpgrade
	}
	if err != nil {
		closeBody(req)
		return nil, unsent{err}
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	stopTerm := context.AfterFunc(t.ctx, func() { cancel(ErrFenced) })
	deadline := time.AfterFunc(left, func() { cancel(ErrFenced) })
	end := func() { stopTerm(); deadline.Stop(); cancel(nil) }
	ctx, flight := t.flights.begin(ctx, t.options.Clock.Now().Add(left+t.options.room()))
	if t.ctx.Err() != nil { // the term ended after permit, so nothing waits for this flight
		end()
		closeBody(req)
		return nil, unsent{t.refusal()}
	}
	copied := guarded(ctx, req, t)
	if kind == writes {
		limit(copied, left)
	}
	res, err := f.next.RoundTrip(copied)
	t.flights.end(flight, res)
	switch {
	case err != nil && ctx.Err() != nil && req.Context().Err() == nil:
		err = fmt.Errorf("%w: no answer within the trust window: %w", ErrFenced, err)
	case err == nil && res.StatusCode == http.StatusSwitchingProtocols:
		_ = res.Body.Close()
		err = errUpgrade
	}
	if err != nil {
		end()
		return nil, err
	}
	res.Body = &endingBody{ReadCloser: res.Body, end: end}
	if kind == streams {
		deadline.Stop()
		res.Body = &guardedBody{ReadCloser: res.Body, term: t}
	}
	return res, nil
}

// unsent is the error of a request that a fence refused before it sent any
// byte.
type unsent struct{ error }

var _ ownwrites.NeverSent = unsent{}

func (u unsent) Unwrap() error { return u.error }

// NeverSent reports true, because the fence refused the request before any of
// it was sent.
func (unsent) NeverSent() bool { return true }

// errUpgrade is the error of a request that switches protocols.
var errUpgrade = fmt.Errorf("%w: a connection that switches protocols would outlive the leadership: open it with a "+
	"client of the original config, and with the context of the leadership", ErrFenced)

// WrappedRoundTripper returns the inner transport, as client-go requires of
// wrappers.
func (f *fence) WrappedRoundTripper() http.RoundTripper { return f.next }

// guarded returns a copy of the request whose body checks the clock each time
// that the transport reads from it. These reads are the last moment before the
// bytes are sent. If the process was paused after the fence permitted the
// write, the request is then broken off instead of completed.
func guarded(ctx context.Context, req *http.Request, t *term) *http.Request {
	copied := req.Clone(ctx)
	if req.Body == nil || req.Body == http.NoBody {
		return copied
	}
	copied.Body = &guardedBody{ReadCloser: req.Body, term: t}
	if req.GetBody != nil {
		copied.GetBody = func() (io.ReadCloser, error) {
			body, err := req.GetBody()
			if err != nil {
				return nil, err
			}
			return &guardedBody{ReadCloser: body, term: t}, nil
		}
	}
	return copied
}

// limit sets the timeout parameter of a request to remaining, the time until
// the trust window ends, unless the request has a shorter timeout. The API
// server gives up the request after that time.
func limit(req *http.Request, remaining time.Duration) {
	query := req.URL.Query()
	if asked, err := time.ParseDuration(query.Get("timeout")); err == nil && asked > 0 && asked <= remaining {
		return
	}
	query.Set("timeout", max(remaining.Truncate(time.Millisecond), time.Millisecond).String())
	req.URL.RawQuery = query.Encode()
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// guardedBody can be read only while its term is trusted.
type guardedBody struct {
	io.ReadCloser
	term *term
}

// Read reads from the body of a request, or of a streamed answer. It fails if
// the term has ended before Read or during it. So no byte is sent, and no part
// of a stream is delivered, after the end of the term.
func (b *guardedBody) Read(p []byte) (int, error) {
	if b.term.left() == 0 {
		return 0, b.term.refusal()
	}
	n, err := b.ReadCloser.Read(p)
	if b.term.left() == 0 {
		return 0, b.term.refusal()
	}
	return n, err
}

// endingBody is the body of an answer. When it is closed, it calls end to
// release the deadline of the request.
type endingBody struct {
	io.ReadCloser
	end func()
}

func (b *endingBody) Close() error {
	b.end()
	return b.ReadCloser.Close()
}

// kind classifies requests by how a fence treats them.
type kind int

const (
	reads    kind = iota // passes
	writes               // passes within the trust window
	streams              // passes while the leadership lasts
	upgrades             // is refused, because it switches protocols and then no fence can end it
)

// kindOf returns the kind of a request. base is the path of the API server. It
// precedes /api and /apis.
func kindOf(req *http.Request, base string) kind {
	t := targetOf(req.URL.Path, base)
	switch {
	case slices.Contains([]string{"exec", "attach", "portforward"}, t.subresource) || req.Header.Get("Upgrade") != "":
		return upgrades
	case t.verb == "proxy" || t.subresource == "proxy":
		return streams
	case t.resource == "pods" && t.subresource == "log" && follows(req):
		return streams
	}
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return reads
	case http.MethodPost:
		if t.isReview() {
			return reads
		}
	}
	return writes
}

// follows reports whether a request for a log stays open for lines that are
// written later.
func follows(req *http.Request) bool {
	follow := req.URL.Query()["follow"]
	return len(follow) > 0 && follow[0] != "false" && follow[0] != "0"
}

// target is the resource that a path of the API server names, by the server's
// own rules: see RequestInfo in
// https://pkg.go.dev/k8s.io/apiserver/pkg/endpoints/request. It is zero for a
// path that names no resource.
type target struct {
	verb                  string // the verb in the old paths /api/v1/proxy/… and /api/v1/watch/…
	group                 string
	resource, subresource string
}

// isReview reports whether the API server only answers objects of the resource,
// and never stores them. For example, it answers a TokenReview or a
// SubjectAccessReview.
func (t target) isReview() bool {
	return (t.group == authenticationv1.GroupName || t.group == authorizationv1.GroupName) &&
		strings.HasSuffix(t.resource, "reviews")
}

// targetOf parses the path of a request below base, the path of the server's
// URL.
func targetOf(path, base string) target {
	parts := strings.Split(strings.Trim(strings.TrimPrefix(path, base), "/"), "/")
	versioned := 2 // api, v1
	if parts[0] == "apis" {
		versioned = 3 // apis, apps, v1
	}
	if parts[0] != "api" && parts[0] != "apis" || len(parts) <= versioned {
		return target{}
	}
	var t target
	if versioned == 3 {
		t.group = parts[1]
	}
	parts = parts[versioned:]
	if parts[0] == "proxy" || parts[0] == "watch" {
		t.verb, parts = parts[0], parts[1:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		parts = parts[2:]
	}
	if len(parts) > 0 {
		t.resource = parts[0]
	}
	if len(parts) > 2 && t.verb != "proxy" {
		t.subresource = parts[2]
	}
	return t
}
