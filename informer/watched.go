package informer

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

	"github.com/homeostat/homeostat/internal/keyspace"
)

var errNotRunning = errors.New("the informer is not running")

// watched is the open watch of a reflector, with the shards that it brings.
type watched struct {
	mu  sync.Mutex // guards the fields below
	set keyspace.Set
	// current is nil while a watch, or a list before it, is being requested.
	current watch.Interface
	since   time.Time
	// streaming is true while the watch brings the first list.
	streaming bool
	changed   chan struct{} // closed when a watch is opened, or the first list has been received
	// narrowing runs until narrowNow is called; nil without a call of narrow.
	narrowing *time.Timer
	hasEnded  bool // there will be no further watch
	// ours is true if this program has ended the watch, and not the server.
	ours bool
}

// stop ends the open watch, if there is one.
func (w *watched) stop() {
	w.mu.Lock()
	current := w.current
	w.ours = true
	w.mu.Unlock()
	if current != nil {
		current.Stop()
	}
}

// stoppedByUs reports whether this program has ended the last watch.
func (w *watched) stoppedByUs() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ours
}

// end records that there will be no further watch.
func (w *watched) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hasEnded, w.current = true, nil
}

// opening records that a watch, or a list before it, is about to be requested.
// Call it before the shards for the request are chosen. Shards that are added
// after that then wait for the next watch, and do not rely on the last one.
func (w *watched) opening() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current = nil
}

// opened records a watch that brings set.
func (w *watched) opened(opened watch.Interface, set keyspace.Set, streaming bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set, w.current, w.since, w.streaming, w.ours = set, opened, time.Now(), streaming, false
	w.notify()
}

// streamed records that the first list has been received.
func (w *watched) streamed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streaming, w.since = false, time.Now() // the reflector restarts its measurement, too
	w.notify()
}

func (w *watched) notify() {
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// shortWatch is how long a watch must be open before it is ended. If a watch
// was shorter and has brought no event, the reflector lists all objects again.
const shortWatch = 1100 * time.Millisecond

// narrowAfter is how long after the removal of shards the watch is opened again
// without them. More shards may be removed or added in that time.
const narrowAfter = 2 * time.Second

// narrow ends the watch after a while, if it then brings more than wanted and
// helps reports that a new watch would bring less. The reflector opens the new
// watch at the same resourceVersion.
func (w *watched) narrow(wanted func() keyspace.Set, helps func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.narrowing == nil && !w.hasEnded {
		w.narrowing = time.AfterFunc(narrowAfter, func() { w.narrowNow(wanted, helps) })
	}
}

func (w *watched) narrowNow(wanted func() keyspace.Set, helps func() bool) {
	w.mu.Lock()
	w.narrowing = nil
	current, over := w.current, w.hasEnded
	wide := !over && len(w.set.Minus(wanted())) > 0
	early := current == nil || w.streaming || time.Since(w.since) < shortWatch
	w.mu.Unlock()
	switch {
	case wide && early:
		w.narrow(wanted, helps)
	case wide && helps():
		w.stop()
	}
}

// covering returns when a watch that brings set is open, or when there will be
// no further watch. If the open watch brings less, covering ends it.
func (w *watched) covering(ctx context.Context, ended <-chan struct{}, set keyspace.Set) error {
	for {
		w.mu.Lock()
		if w.current != nil && !w.streaming && w.set.Includes(set) {
			w.mu.Unlock()
			return nil
		}
		if w.changed == nil {
			w.changed = make(chan struct{})
		}
		changed, current := w.changed, w.current
		var long <-chan time.Time
		if current != nil && !w.streaming {
			long = time.After(shortWatch - time.Since(w.since))
		}
		w.mu.Unlock()
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-ended:
				return errNotRunning
			case <-changed:
				waiting = false
			case <-long:
				w.stop()
			}
		}
	}
}

// endable is a watch that a goroutine other than its reader may end, without an
// error. client-go's watches, in contrast, report the connection that their own
// Stop has closed, and a reflector then lists all objects again.
type endable struct {
	watch.Interface

	// ends reports whether the watch ends at an event, which is then not passed
	// on. It may be nil.
	ends    func(watch.Event) bool
	out     chan watch.Event
	done    chan struct{}
	stopped atomic.Bool
}

// newEndable starts to pass on the events of w.
func newEndable(w watch.Interface, ends func(watch.Event) bool) *endable {
	e := &endable{Interface: w, ends: ends, out: make(chan watch.Event), done: make(chan struct{})}
	go e.forward()
	return e
}

// forward passes events on until the watch ends or Stop is called. It passes no
// event on after Stop, because that may be the error of the connection that
// Stop has closed.
func (e *endable) forward() {
	defer close(e.out)
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
			case <-e.done: // the next watch brings the event again
				return
			case e.out <- event:
			}
		}
	}
}

// ResultChan implements [watch.Interface].
func (e *endable) ResultChan() <-chan watch.Event { return e.out }

// Stop implements [watch.Interface]. It does not wait for another call of Stop,
// which may be closing a stalled connection.
func (e *endable) Stop() {
	if e.stopped.CompareAndSwap(false, true) {
		close(e.done)
		e.Interface.Stop()
	}
}

// deadline ends a request that is not answered. client-go sets no deadline, and
// repeats requests inside one call; the time starts again with each of them.
type deadline struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// withDeadline returns a context that ends with errNoAnswer if a request is not
// answered within limit. The call must also end within rest of the first byte
// of an answer, which may ask to wait and try again. A rest of 0 means no
// limit.
func withDeadline(ctx context.Context, limit, rest time.Duration) (context.Context, *deadline) {
	ctx, cancel := context.WithCancelCause(ctx)
	d := &deadline{cancel: cancel}
	d.timer = time.AfterFunc(limit, func() { cancel(errNoAnswer) })
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { d.timer.Reset(limit) },
		GotFirstResponseByte: func() {
			if d.timer.Stop(); rest > 0 {
				d.timer.Reset(rest)
			}
		},
	}), d
}

func (d *deadline) end() { d.cancel(nil) }

// limitedWatch ends the context of its request when it is stopped.
type limitedWatch struct {
	watch.Interface
	deadline *deadline
}

// closeTime is how long closing the body of a watch may take. If the connection
// is stalled, it lasts until the context of the request ends. The context is
// not ended at once, because its error must not arrive before the body knows
// that it was closed.
const closeTime = time.Second

// Stop implements [watch.Interface].
func (w limitedWatch) Stop() {
	defer w.deadline.end()
	defer time.AfterFunc(closeTime, w.deadline.end).Stop()
	w.Interface.Stop()
}

// openInTime returns a watch that is open.
//
// Errors: the error of open, errNoAnswer, or errCutOff.
func openInTime(ctx context.Context, open func(context.Context) (watch.Interface, error)) (watch.Interface, error) {
	ctx, d := withDeadline(ctx, streamIdle, watchIdle)
	w, err := open(ctx)
	// client-go returns an empty watch for a connection that keeps ending.
	empty := err == nil && isEmptyWatch(w)
	switch {
	case err == nil && !empty:
		d.timer.Stop() // the context ends with the watch
		return limitedWatch{w, d}, nil
	case errors.Is(context.Cause(ctx), errNoAnswer):
		err = errNoAnswer
	case empty:
		err = errCutOff
	}
	d.end()
	return nil, err
}

// isEmptyWatch reports whether w is a watch that has ended already.
func isEmptyWatch(w watch.Interface) bool {
	return reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch())
}

// calls counts requests under way, because the reflector does not wait for a
// list that it has given up.
type calls struct {
	// mu guards ended, and running against an Add beside Wait.
	mu    sync.Mutex
	ended bool

	running sync.WaitGroup
}

// begin reports whether a request may start. If so, the caller must call end.
func (c *calls) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.running.Add(1)
	}
	return !c.ended
}

func (c *calls) end() { c.running.Done() }

// wait prevents further requests, and returns when the last one has ended.
func (c *calls) wait() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.running.Wait()
}

// mortalClock is the real clock, except that its pauses end with a context.
// Without it, the reflector would finish a back-off before it stops.
type mortalClock struct {
	clock.RealClock
	ctx context.Context //nolint:containedctx // clock.Clock has no other way in
}

// After returns a channel that gets the time after d, or when the context ends.
func (c mortalClock) After(d time.Duration) <-chan time.Time {
	ch := make(chan time.Time, 1)
	go func() {
		select {
		case <-time.After(d):
		case <-c.ctx.Done():
		}
		ch <- time.Now()
	}()
	return ch
}
