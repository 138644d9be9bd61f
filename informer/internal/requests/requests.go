// Package requests says how long the lists and watches of an informer may take,
// and how they end. An API server that stops answering sends no error:
// client-go then waits forever, but this package does not.
//
// For example, a list that has no answer after [WatchIdle] ends with
// [ErrNoAnswer]. [CauseOf] explains that to people as "no answer".
package requests

import (
	"context"
	"errors"
	"net/http/httptrace"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
)

const (
	// StreamIdle is how long a streaming list may deliver neither an object nor
	// its final bookmark before a plain list replaces it. It is also how long
	// the server may take to begin its answer to the request for a watch.
	StreamIdle = 30 * time.Second
	// WatchIdle is how long a watch may deliver neither an event nor a bookmark
	// before it is reopened, if the server sends bookmarks. It is also how long
	// the server may take to begin its answer to a list.
	WatchIdle = 5 * time.Minute
	// EndGrace is how much longer than its timeout a watch may stay open before
	// it counts as stalled.
	EndGrace = 30 * time.Second
	// TimelyEnd limits how early a watch may end. A watch that ends at most
	// this long before its timeout counts as ended by a server that works.
	TimelyEnd = 5 * time.Second
	// Steady is how long a watch that delivers no event must be open to count
	// as working.
	Steady = 10 * time.Second
	// asksToWait is how long opening a watch may take after the first byte of
	// the answer. If it takes longer, this package assumes that the server has
	// asked client-go to wait.
	asksToWait = 5 * time.Second
	// ListTime is how long the answer to a list may take after its first byte.
	// The informer doubles it, up to 64 times ListTime, with each list in a row
	// that it gives up. So a list that is only slow succeeds in the end.
	ListTime = 10 * time.Minute
	// OutageTime is how long watches may keep failing before the failures are
	// reported as a problem. An API server restarts in less time.
	OutageTime = time.Minute
)

var (
	// ErrNoAnswer is the error of a request that was not answered in time.
	ErrNoAnswer = errors.New("the server did not answer in time")
	// ErrIncomplete is the error of a list whose answer began, but did not end
	// in time.
	ErrIncomplete error = noAnswerError("the server began to answer, but did not end its answer in time")
	// ErrAsksToWait is the failure of a watch whose request the server answers by
	// asking to wait, with a Retry-After. client-go then waits inside of the call,
	// for as long as the server asks and up to ten times.
	ErrAsksToWait error = noAnswerError("the server or a proxy answers each request with a Retry-After header, " +
		"as it does with status 429 to clients that it throttles")
	// ErrCutOff is the error for a watch that had already ended when client-go
	// returned it.
	ErrCutOff = errors.New("the connection ended, or timed out, before the server answered")
	// ErrRestored means that the informer has seen a state that the server has
	// lost, as after a restore of the server's storage from a backup.
	ErrRestored = errors.New("the server's resourceVersions went back, as after a restore of its storage: " +
		"listing everything again")
	// ErrEndsAtOnce is the failure of watches that end before they deliver an
	// event, and before they have been open for the time in Steady. The server,
	// a proxy or a connection that breaks may have ended them. The reason is
	// known only if the server has sent an error event.
	ErrEndsAtOnce = errors.New("watches end within ten seconds after they are opened, without an event")
	// ErrMute is the failure of watches that stay open beyond their timeout and
	// deliver nothing, not even a bookmark. Something between the program and
	// the server may hold their events back, as nginx does with
	// proxy_buffering. Events are then missing although no request fails.
	ErrMute = errors.New("watches stay open but deliver nothing, so everything is listed again when a watch ends, " +
		"and the cache is stale until then")
	// ErrGoexit is the failure of a function of the program, such as a handler
	// or a Transform, that ends the goroutine on which it was called. It is
	// also the failure of the request whose answer had the object for which the
	// function was called.
	ErrGoexit = errors.New("runtime.Goexit was called, as t.FailNow does in tests")
	// ErrNotRunning is the error of a call that waits for an informer that is
	// not running.
	ErrNotRunning = errors.New("the informer is not running")
)

// noAnswerError is an error that errors.Is takes for ErrNoAnswer. Its text says more
// about the answer that is missing.
type noAnswerError string

func (e noAnswerError) Error() string { return string(e) }

func (noAnswerError) Is(target error) bool { return target == ErrNoAnswer }

// Earlier returns the earlier of two times. A zero time stands for no time, so
// Earlier then returns the other one.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Endable is a watch that a goroutine other than its reader may end, without an
// error. client-go's watches, in contrast, report an error for the connection
// that their own Stop has closed, and a reflector then lists all objects again.
type Endable struct {
	watch.Interface

	// ends reports whether the watch ends at an event. Such an event is not
	// passed on. If ends is nil, all events are passed on.
	ends    func(watch.Event) bool
	events  chan watch.Event
	done    chan struct{}
	stopped atomic.Bool
}

// NewEndable returns a watch that passes on the events of w. The returned watch
// ends at the first event for which a call of ends returns true, and does not
// pass on that event. If ends is nil, it passes on all events.
func NewEndable(w watch.Interface, ends func(watch.Event) bool) *Endable {
	e := &Endable{Interface: w, ends: ends, events: make(chan watch.Event), done: make(chan struct{})}
	go e.forward()
	return e
}

// forward passes events on until the watch ends, ends returns true for an
// event, or Stop is called. It passes no event on after Stop, because the event
// may be the error of the connection that Stop has closed.
func (e *Endable) forward() {
	defer close(e.events)
	for {
		select {
		case <-e.done:
			return
		case event, open := <-e.Interface.ResultChan():
			if !open {
				return
			}
			select {
			case <-e.done: // the event may be the error of our own Stop
				return
			default:
			}
			if e.ends != nil && e.ends(event) {
				return
			}
			select {
			case <-e.done: // the next watch delivers the event again
				return
			case e.events <- event:
			}
		}
	}
}

// ResultChan implements [watch.Interface].
func (e *Endable) ResultChan() <-chan watch.Event { return e.events }

// Stop implements [watch.Interface]. It does not wait for another call of Stop,
// because that may be closing a stalled connection.
func (e *Endable) Stop() {
	if e.stopped.CompareAndSwap(false, true) {
		close(e.done)
		e.Interface.Stop()
	}
}

// Deadline ends a request that the server does not answer in time. client-go
// sets no such deadline. If client-go repeats the request inside one call, the
// time starts again with each repetition.
type Deadline struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer
	// answered is true if the last request of the call has been answered.
	answered atomic.Bool
	// waits calls the function waits of OpenInTime when it fires, or is
	// nil. An answer starts it, and a request stops it.
	waits *time.Timer
}

// WithDeadline returns a context that ends with ErrNoAnswer if a request is not
// answered within limit. After the first byte of an answer, the call must end
// within rest, or send its request again. A rest of 0 means no limit.
//
// An answer with a Retry-After makes client-go wait within the call, and then
// send the request again, up to ten times. Both limits begin again with each
// request. So a rest of five minutes limits each wait to five minutes, and not
// the whole call.
func WithDeadline(ctx context.Context, limit, rest time.Duration) (context.Context, *Deadline) {
	ctx, cancel := context.WithCancelCause(ctx)
	d := &Deadline{cancel: cancel}
	d.timer = time.AfterFunc(limit, func() { cancel(ErrNoAnswer) })
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			d.answered.Store(false)
			if d.waits != nil {
				d.waits.Stop()
			}
			d.timer.Reset(limit)
		},
		GotFirstResponseByte: func() {
			d.answered.Store(true)
			if d.waits != nil {
				d.waits.Reset(asksToWait)
			}
			if d.timer.Stop(); rest > 0 {
				d.timer.Reset(rest)
			}
		},
	}), d
}

// Answered reports whether the first byte of an answer to the last request has
// arrived. client-go may still be waiting to repeat the request, because the
// answer had a Retry-After.
func (d *Deadline) Answered() bool { return d.answered.Load() }

// End ends the context that [WithDeadline] has returned, and so the request.
func (d *Deadline) End() {
	d.timer.Stop() // which keeps the context
	d.cancel(nil)
}

// limitedWatch ends the context of its request when it is stopped.
type limitedWatch struct {
	watch.Interface
	deadline *Deadline
}

// closeTime is how long closing the body of a watch may take. If the connection
// is stalled, closing lasts until the context of the request ends. The context
// is not ended at once, because its error must not arrive before the body knows
// that it was closed.
const closeTime = time.Second

// Stop implements [watch.Interface].
func (w limitedWatch) Stop() {
	defer w.deadline.End()
	defer time.AfterFunc(closeTime, w.deadline.End).Stop()
	w.Interface.Stop()
}

// OpenInTime opens a watch with open, and returns it unless it has already
// ended. The server must send the first byte of its answer within StreamIdle,
// and open must return within WatchIdle after that byte.
//
// OpenInTime returns the error of open if open fails, ErrNoAnswer if one of the
// limits is exceeded, and ErrCutOff if the watch has already ended. If the
// server has answered the last request, and a limit is exceeded because open
// still waits to repeat it, the error is ErrAsksToWait.
//
// OpenInTime calls waits, unless it is nil, when open waits for several seconds
// because the last answer asks to wait. It may do so once for each answer, from
// a different goroutine.
func OpenInTime(
	ctx context.Context, open func(context.Context) (watch.Interface, error), waits func(),
) (watch.Interface, error) {
	ctx, d := WithDeadline(ctx, StreamIdle, WatchIdle)
	if waits != nil {
		d.waits = time.AfterFunc(WatchIdle, waits)
		d.waits.Stop() // until there is an answer
	}
	w, err := open(ctx)
	if d.waits != nil {
		d.waits.Stop()
	}
	// client-go returns an empty watch for a connection that keeps ending.
	empty := err == nil && IsEmpty(w)
	switch {
	case err == nil && !empty:
		d.timer.Stop() // the context ends with the watch
		return limitedWatch{w, d}, nil
	case errors.Is(context.Cause(ctx), ErrNoAnswer):
		if err = ErrNoAnswer; d.answered.Load() {
			err = ErrAsksToWait
		}
	case empty:
		err = ErrCutOff
	}
	d.End()
	return nil, err
}

// IsEmpty reports whether w is the empty watch that client-go returns if the
// connection has ended before the server answered. It returns false for any
// other watch, even if that has ended.
func IsEmpty(w watch.Interface) bool {
	return reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch())
}

// Calls counts requests under way. An informer waits for them when it ends.
// client-go's reflector does not wait for a list that it has given up.
type Calls struct {
	// mu guards ended. It is also held when running.Add is called, because no
	// request may begin after Wait.
	mu    sync.Mutex
	ended bool

	running sync.WaitGroup
}

// Begin reports whether a request may start: it may unless Wait was called. If
// so, Begin counts the request, and the caller must call End.
func (c *Calls) Begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.running.Add(1)
	}
	return !c.ended
}

// End records that a request has ended.
func (c *Calls) End() { c.running.Done() }

// Wait prevents further requests, and returns when the last one has ended.
func (c *Calls) Wait() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.running.Wait()
}

// Clock is the real clock, except that a pause with After ends at once when
// Context ends. With the real clock, client-go's reflector would finish a
// back-off before it stops. Timers and tickers do not depend on Context.
type Clock struct {
	clock.RealClock
	Context context.Context //nolint:containedctx // the methods of clock.Clock have no context
}

// After returns a channel that gets the time after d, or when the context ends.
func (c Clock) After(d time.Duration) <-chan time.Time {
	ch := make(chan time.Time, 1)
	go func() {
		select {
		case <-time.After(d):
		case <-c.Context.Done():
		}
		ch <- time.Now()
	}()
	return ch
}

// Counters count requests and their results.
type Counters struct{ Lists, Watches, Stalls, Restores, Failures atomic.Int64 }
