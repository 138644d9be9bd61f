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

// watched is the open watch of a reflector, and what it brings.
type watched struct {
	mu  sync.Mutex // guards the fields below
	set keyspace.Set
	// current is nil while a watch, or a list before it, is being requested.
	current watch.Interface
	since   time.Time
	// streaming says that it brings the first list.
	streaming bool
	changed   chan struct{} // closed when a watch is opened, or the first list has come
	// narrowing runs until the watch is looked at because it may bring too much.
	narrowing *time.Timer
	over      bool // there will be no more
	// ours says that the watch was ended by this program, not by the server.
	ours bool
}

// stop ends the watch that is open.
func (w *watched) stop() {
	w.mu.Lock()
	current := w.current
	w.ours = true
	w.mu.Unlock()
	if current != nil {
		current.Stop()
	}
}

// stoppedByUs reports whether the last watch was ended by this program.
func (w *watched) stoppedByUs() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ours
}

// end follows the last watch.
func (w *watched) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over, w.current = true, nil
}

// opening notes that a watch, or a list before it, is about to be requested. It
// precedes the choice of the shards to ask for, so that shards which come later wait
// for the next watch and do not trust the last one.
func (w *watched) opening() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current = nil
}

// opened notes a watch that brings set.
func (w *watched) opened(of watch.Interface, set keyspace.Set, streaming bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set, w.current, w.since, w.streaming, w.ours = set, of, time.Now(), streaming, false
	w.notify()
}

// streamed notes that the first list has come.
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

// shortWatch is how long a watch has to be open before it is ended: the reflector
// lists everything again after one that is shorter and has brought nothing.
const shortWatch = 1100 * time.Millisecond

// narrowAfter is how long after shards have gone the watch is opened again without them: more of them may go, or come.
const narrowAfter = 2 * time.Second

// narrow ends the watch after a while if it brings more than wanted then, and helps says that the next
// one would not: it is opened again where it is, for that.
func (w *watched) narrow(wanted func() keyspace.Set, helps func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.narrowing == nil && !w.over {
		w.narrowing = time.AfterFunc(narrowAfter, func() { w.narrowNow(wanted, helps) })
	}
}

func (w *watched) narrowNow(wanted func() keyspace.Set, helps func() bool) {
	w.mu.Lock()
	w.narrowing = nil
	current, over := w.current, w.over
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

// covering returns when a watch that brings set is open, or no more will be. It ends the
// one that is open if that brings less.
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

// endable is a watch that another goroutine than its reader may end, without an error:
// client-go's watches report the connection that their own Stop has closed, and a
// reflector lists everything again then.
type endable struct {
	watch.Interface

	// ends reports whether the watch ends at an event, which is not passed on; nil never.
	ends    func(watch.Event) bool
	out     chan watch.Event
	done    chan struct{}
	stopped atomic.Bool
}

func newEndable(w watch.Interface, ends func(watch.Event) bool) *endable {
	e := &endable{Interface: w, ends: ends, out: make(chan watch.Event), done: make(chan struct{})}
	go e.forward()
	return e
}

// forward passes events on until the watch ends or Stop is called. After Stop none is
// passed on: the last one may be the error of the connection that Stop has closed.
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
			case <-e.done: // it may be the error of our own Stop
				return
			default:
			}
			if e.ends != nil && e.ends(event) {
				return
			}
			select {
			case <-e.done: // the next watch brings it again
				return
			case e.out <- event:
			}
		}
	}
}

// ResultChan implements [watch.Interface].
func (e *endable) ResultChan() <-chan watch.Event { return e.out }

// Stop implements [watch.Interface]. It does not wait for another call of Stop, which may
// be closing a stalled connection.
func (e *endable) Stop() {
	if e.stopped.CompareAndSwap(false, true) {
		close(e.done)
		e.Interface.Stop()
	}
}

// deadline ends a request that is not answered. Client-go sets none, and repeats
// requests inside of a call: so the time starts again with each of them.
type deadline struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// withDeadline returns a context that ends with errNoAnswer if a request is not
// answered within limit, or if the call does not end within rest of the first byte
// of an answer, which may ask to wait and try again. No rest means no limit.
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

// closeTime is how long the body of a watch may take to be closed. It may wait for a connection that is stalled, until
// the context of its request ends. That is not ended at once: its error must not come before the body knows of its end.
const closeTime = time.Second

// Stop implements [watch.Interface].
func (w limitedWatch) Stop() {
	defer w.deadline.end()
	defer time.AfterFunc(closeTime, w.deadline.end).Stop()
	w.Interface.Stop()
}

// openInTime returns a watch that is open.
//
// Errors: that of open, errNoAnswer, or errCutOff.
func openInTime(ctx context.Context, open func(context.Context) (watch.Interface, error)) (watch.Interface, error) {
	ctx, d := withDeadline(ctx, streamIdle, watchIdle)
	w, err := open(ctx)
	// Client-go returns an empty watch for a connection that ends time and again.
	empty := err == nil && isEmptyWatch(w)
	switch {
	case err == nil && !empty:
		d.timer.Stop() // and not the context
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

// calls counts requests under way: the reflector returns without waiting for a
// list that it has given up.
type calls struct {
	// mu guards ended, and running against an Add beside Wait.
	mu    sync.Mutex
	ended bool

	running sync.WaitGroup
}

// begin reports whether a request may start; then end must follow.
func (c *calls) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.running.Add(1)
	}
	return !c.ended
}

func (c *calls) end() { c.running.Done() }

// wait lets no more requests start, and returns when the last one has ended.
func (c *calls) wait() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.running.Wait()
}

// mortalClock is the real clock, but its pauses end with a context: otherwise the
// reflector would finish a back-off before it ends.
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
