package leader

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/homeostat/homeostat/leader/internal/record"
)

// term is one leadership, from a granted Lease until it is lost or released. It
// is safe for concurrent use.
type term struct {
	elector any // the elector of the term; its fence compares it, and so accepts only its own terms
	options *Options
	ctx     context.Context //nolint:containedctx // ends with the term; the contexts of the term's functions end with it
	cancel  context.CancelCauseFunc
	flights flights

	// members are the functions that run under this term. They enter under the
	// elector's lock, while the term is the current one.
	members sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	lease *coordinationv1.Lease
	sent  time.Time // when the last successful renewal was sent, or the request that took the Lease
}

// grant is a Lease that the API server wrote with this replica as the holder.
type grant struct {
	lease *coordinationv1.Lease
	sent  time.Time
}

// termKey is the context key of the term that a function runs under.
type termKey struct{}

func newTerm(elector any, o *Options, g grant) *term {
	t := &term{elector: elector, options: o, lease: g.lease, sent: g.sent}
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	return t
}

// left returns how long the term may still be trusted, and 0 if that time is
// over. If more time has passed by the wall clock than by the monotonic clock,
// the wall clock counts, because the monotonic clock stands still while the
// machine is suspended.
func (t *term) left() time.Duration {
	if t.ctx.Err() != nil {
		return 0
	}
	now := t.options.Clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	age := max(now.Sub(t.sent), now.Round(0).Sub(t.sent.Round(0)))
	return max(0, t.options.RenewDeadline-age)
}

// monotonicLeft returns how long the term may be trusted by the monotonic clock
// alone. Timers use that clock.
func (t *term) monotonicLeft() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(0, t.options.RenewDeadline-t.options.Clock.Since(t.sent))
}

// trustedUntil returns when the trust window closes, by the monotonic clock.
func (t *term) trustedUntil() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sent.Add(t.options.RenewDeadline)
}

// granted returns when the last successful renewal was sent. Before the first
// renewal, it returns when the request that took the Lease was sent.
func (t *term) granted() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sent
}

func (t *term) record() *coordinationv1.Lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lease
}

func (t *term) renewed(g grant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lease, t.sent = g.lease, g.sent
}

// watch ends the term when its trust window closes, even while requests are in
// flight. It returns when the term has ended.
func (t *term) watch() {
	for t.ctx.Err() == nil {
		if left := t.monotonicLeft(); left > 0 {
			record.Sleep(t.ctx, t.options.Clock, left)
		} else {
			t.cancel(t.refusal())
		}
	}
}

// refusal returns the reason why writes under the term are refused.
func (t *term) refusal() error {
	cause := context.Cause(t.ctx)
	if cause == nil {
		return fmt.Errorf("%w: no renewal for %v", ErrFenced, t.options.RenewDeadline)
	}
	return fmt.Errorf("%w: %w", ErrFenced, cause)
}

// flights are the requests that a term has let through and that may still
// arrive at the API server. A request that has no answer may still arrive. It
// is assumed to be lost when the Lease, as last renewed before the request was
// sent, has expired.
type flights struct {
	mu   sync.Mutex // guards the fields below
	open map[*flight]bool
	cut  time.Time // after this time, no request that ended without an answer can still arrive
}

// flight is one request under way.
type flight struct {
	deadline time.Time    // after this time, the request can no longer arrive
	wanted   atomic.Int32 // how often the transport asked for a connection
	occupied atomic.Int32 // how often the transport got a connection
}

// begin records a request that may arrive until deadline. The context that it
// returns lets the transport report whether the request was sent.
func (f *flights) begin(ctx context.Context, deadline time.Time) (context.Context, *flight) {
	request := &flight{deadline: deadline}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = map[*flight]bool{}
	}
	f.open[request] = true
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { request.wanted.Add(1) },
		GotConn: func(httptrace.GotConnInfo) { request.occupied.Add(1) },
	}), request
}

// end records the end of a request. res is nil if the request was not answered.
// Then the request may still arrive, unless it never got a connection. A status
// of 500 or above counts as no answer: it may come from a proxy, or from a
// server that stopped waiting although the request may still take effect.
func (f *flights) end(request *flight, res *http.Response) {
	answered := res != nil && res.StatusCode < http.StatusInternalServerError
	unsent := request.wanted.Load() > 0 && request.occupied.Load() == 0 // it waited for a connection and got none
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, request)
	if !answered && !unsent && request.deadline.After(f.cut) {
		f.cut = request.deadline
	}
}

// cutUntil returns the time after which no request that was cut off can still
// arrive.
func (f *flights) cutUntil() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cut
}

// quietAt returns the time after which no request can still arrive, including
// the requests in flight.
func (f *flights) quietAt() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.cut
	for request := range f.open {
		if request.deadline.After(last) {
			last = request.deadline
		}
	}
	return last
}
