package apisim

import (
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Fault is a way in which a call, or the delivery of an event, fails.
type Fault uint8

// These are the faults. A call with LostReply, Late or CrashAfter is executed.
// A call with any other fault has no effect.
const (
	NoFault     Fault = iota
	Internal          // a call: 500, without a write
	Conflict          // a call: 409, without a write
	Throttled         // a call: 429 with Retry-After, without a write
	Unreachable       // a call: the connection is refused, without a write
	LostReply         // a call: the server executes it, but the caller sees a timeout
	Late              // a call: the caller sees a timeout, and the server executes the call at a later step
	CrashBefore       // a call: the caller's incarnation dies before the call
	CrashAfter        // a call: the server executes it, and then the caller's incarnation dies
	Expired           // a list or watch: 410; a delivery: 410 in place of the event, history is compacted
	Dropped           // a delivery: the stream ends in place of the event
	Duplicated        // a delivery: the event is delivered twice
	// ProxyNotFound is for a read or a delete: 404 as plain text, like the
	// answer of a proxy that does not know the path.
	ProxyNotFound
	// NotServed is for a read or a delete: 404, like the answer of a server
	// that does not serve the version.
	NotServed
	OtherNotFound // a read or a delete: 404 about another object
	Unauthorized  // a call: 401, without a write
	faults
)

var faultNames = [faults]string{
	"none", "500", "409", "429", "unreachable", "lost reply", "late", "crash before", "crash after", "410", "dropped",
	"duplicated", "404 of a proxy", "404 of a version that is not served", "404 about another object", "401",
}

func (f Fault) String() string { return faultNames[f] }

// RetryAfter is how long the 429 of [Throttled] asks the caller to wait.
const RetryAfter = time.Second

// timeoutError is the error of net/http for an answer that did not arrive in
// time.
type timeoutError struct{}

func (timeoutError) Error() string   { return "net/http: timeout awaiting response headers" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

var errRefused = errors.New("dial tcp 127.0.0.1:6443: connect: connection refused")

// applyFault answers a released call according to the fault. It runs in the
// caller's goroutine.
func (d *Scheduler) applyFault(ctx context.Context, p *parked, f Fault) (*http.Response, error) {
	s, gr := d.server, p.req.Resource.GroupResource()
	switch f {
	case Internal:
		return respond(nil, apierrors.NewInternalError(errors.New("injected"))), nil
	case Conflict:
		return respond(nil, apierrors.NewConflict(gr, p.req.Name, errors.New(staleVersion))), nil
	case Throttled:
		return respond(nil, apierrors.NewTooManyRequests("the server has received too many requests",
			int(RetryAfter.Seconds()))), nil
	case Expired:
		return respond(nil, apierrors.NewResourceExpired("injected: the resourceVersion is too old")), nil
	case ProxyNotFound:
		return (&Reply{Code: http.StatusNotFound, Body: []byte("404 page not found")}).response(), nil
	case NotServed:
		return respond(nil, notServed()), nil
	case OtherNotFound:
		return respond(nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "elsewhere")), nil
	case Unauthorized:
		return respond(nil, apierrors.NewUnauthorized("Unauthorized")), nil
	case Unreachable:
		return nil, errRefused
	case CrashBefore:
		d.crash(p.req.Client)
		return nil, context.Canceled
	case Late:
		return nil, timeoutError{}
	}
	resp, err := s.answer(ctx, p.req)
	switch f {
	case LostReply:
		discard(resp)
		return nil, timeoutError{}
	case CrashAfter:
		discard(resp)
		d.crash(p.req.Client)
		return nil, context.Canceled
	}
	return resp, err
}

func discard(resp *http.Response) {
	if resp != nil {
		_ = resp.Body.Close()
	}
}

// crash ends a process first, and only then the calls for which the process
// waits. In the opposite order, the process could still react to an answer,
// depending on the speed of goroutines.
func (d *Scheduler) crash(client string) {
	if d.onCrash != nil {
		d.onCrash(client)
	}
	d.server.Fence(client)
}
