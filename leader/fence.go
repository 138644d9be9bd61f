package leader

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// termKey is the context key of the term that a function runs under, ownKey
// that of the elector whose own request it is.
type (
	termKey struct{}
	ownKey  struct{}
)

// Fence returns a copy of config whose clients write only while this replica
// leads: any other request than GET, HEAD and OPTIONS, and any exec, attach,
// portforward or proxy, is refused with an error that wraps [ErrFenced] once
// the renew deadline may have passed. Requests that are let through get a
// deadline that ends with the trust window, in the client and as the timeout
// parameter in the server. Reads pass.
//
// A request made with the context of an earlier leadership is refused even if
// this replica leads again. Make the elector's own client, and clients that
// write at any time such as an event recorder's, from the config as it was.
func (e *Elector) Fence(config *rest.Config) *rest.Config {
	fenced := rest.CopyConfig(config)
	fenced.Wrap(func(next http.RoundTripper) http.RoundTripper { return &fence{elector: e, next: next} })
	return fenced
}

// permit returns the term under which a write may go out, and for how long.
func (e *Elector) permit(ctx context.Context) (*term, time.Duration, error) {
	t := e.current.Load()
	if of, ok := ctx.Value(termKey{}).(*term); ok && of.elector == e {
		t = of
	}
	if t == nil {
		return nil, 0, fmt.Errorf("%w: lease %q is not held", ErrFenced, e.lease.key())
	}
	left := t.left()
	if left == 0 {
		return nil, 0, t.refusal()
	}
	return t, left, nil
}

type fence struct {
	elector *Elector
	next    http.RoundTripper
}

func (f *fence) RoundTrip(req *http.Request) (*http.Response, error) {
	if own, _ := req.Context().Value(ownKey{}).(*Elector); own == f.elector || readOnly(req) {
		return f.next.RoundTrip(req)
	}
	t, left, err := f.elector.permit(req.Context())
	if err != nil {
		closeBody(req)
		return nil, fmt.Errorf("sending %s %s: %w", req.Method, req.URL.Path, err)
	}
	if connects(req) {
		return f.next.RoundTrip(guarded(req.Context(), req, t)) // a stream: its caller's context ends it
	}
	ctx, cancel := context.WithTimeoutCause(req.Context(), left, ErrFenced)
	stop := context.AfterFunc(t.ctx, cancel)
	end := func() { stop(); cancel() }
	out := guarded(ctx, req, t)
	limit(out, left)
	res, err := f.next.RoundTrip(out)
	if err != nil {
		if ctx.Err() != nil && req.Context().Err() == nil {
			err = fmt.Errorf("%w: no answer within the trust window: %w", ErrFenced, err)
		}
		end()
		return nil, err
	}
	res.Body = &endingBody{ReadCloser: res.Body, end: end}
	return res, nil
}

// WrappedRoundTripper lets client-go look through the fence.
func (f *fence) WrappedRoundTripper() http.RoundTripper { return f.next }

func readOnly(req *http.Request) bool {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return !connects(req)
	}
	return false
}

// connects tells whether the request opens a way into a pod, a node or a
// service, which is a GET when it is a web socket.
func connects(req *http.Request) bool {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	for i, part := range parts {
		switch part {
		case "pods", "nodes", "services":
			if i+2 < len(parts) {
				switch parts[i+2] {
				case "exec", "attach", "portforward", "proxy":
					return true
				}
			}
		}
	}
	return false
}

// guarded returns a copy of the request whose body checks the clock again each
// time that the transport reads from it. This is the last moment before the
// bytes leave: a process that is paused between the permission and the socket
// breaks the request off instead of completing it.
func guarded(ctx context.Context, req *http.Request, t *term) *http.Request {
	out := req.Clone(ctx)
	if req.Body == nil || req.Body == http.NoBody {
		return out
	}
	out.Body = &guardedBody{ReadCloser: req.Body, term: t}
	if req.GetBody != nil {
		out.GetBody = func() (io.ReadCloser, error) {
			body, err := req.GetBody()
			if err != nil {
				return nil, err
			}
			return &guardedBody{ReadCloser: body, term: t}, nil
		}
	}
	return out
}

// limit asks the API server to give up when the trust window ends.
func limit(req *http.Request, left time.Duration) {
	query := req.URL.Query()
	if asked, err := time.ParseDuration(query.Get("timeout")); err == nil && asked > 0 && asked <= left {
		return
	}
	query.Set("timeout", max(left.Truncate(time.Millisecond), time.Millisecond).String())
	req.URL.RawQuery = query.Encode()
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

type guardedBody struct {
	io.ReadCloser
	term *term
}

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

// endingBody frees the deadline of a request when its answer has been read.
type endingBody struct {
	io.ReadCloser
	end func()
}

func (b *endingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

func (b *endingBody) Close() error {
	b.end()
	return b.ReadCloser.Close()
}
