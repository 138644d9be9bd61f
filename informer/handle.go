package informer

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// A handler is a function that wants to hear of every change.
type handler[T Object] struct {
	call    func(Event[T])
	removed atomic.Bool

	// The Informer's mu guards what follows.
	joining bool       // the known objects are being replayed
	pending []Event[T] // what has come meanwhile
}

// A batch is what one step of the store has to hand on: events to the handlers
// of that moment, then the notice that this has been done.
type batch[T Object] struct {
	came     time.Time // zero if it has no events
	events   []Event[T]
	handlers []*handler[T]
	done     func()
}

// Handle calls h for every change from now on, after the store has it, until
// remove is called. Objects that are known already are replayed first, as
// Added, before Handle returns.
//
// Calls never overlap and are in the order of the changes. They hold up the
// watch: h must not block. A call that has begun may still be running when
// remove returns. A call that panics is logged and counted, and not repeated.
func (i *Informer[T]) Handle(h func(Event[T])) (remove func()) {
	joined := &handler[T]{call: h, joining: true}
	i.mu.Lock()
	i.handlers = append(slices.Clip(i.handlers), joined)
	known := i.Snapshot()
	i.mu.Unlock()
	for object := range known.All() {
		if !joined.removed.Load() {
			i.call(joined, Event[T]{New: object, Type: Added, Initial: true})
		}
	}
	i.catchUp(joined)
	return func() { i.remove(joined) }
}

// catchUp hands on what has come during the replay, until nothing is left.
func (i *Informer[T]) catchUp(h *handler[T]) {
	for {
		i.mu.Lock()
		pending := h.pending
		h.pending = nil
		h.joining = len(pending) > 0
		i.mu.Unlock()
		if len(pending) == 0 {
			return
		}
		i.handOn(h, pending)
	}
}

func (i *Informer[T]) remove(h *handler[T]) {
	h.removed.Store(true)
	i.mu.Lock()
	if at := slices.Index(i.handlers, h); at >= 0 {
		i.handlers = splice(i.handlers, at, at+1)
	}
	i.mu.Unlock()
	i.forgetIfUnused()
}

// publish makes next the newest version and queues what has to be handed on. The caller
// holds writing, and calls deliver when it has let it go.
func (i *Informer[T]) publish(next *version[T], b batch[T]) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.latest.Store(next)
	if b.handlers = i.handlers; len(b.events) > 0 {
		b.came = time.Now()
	}
	i.counted.events.Add(int64(len(b.events)))
	i.batches = append(i.batches, b)
}

// notice queues done behind everything that has to be handed on already.
func (i *Informer[T]) notice(done func()) {
	i.mu.Lock()
	i.batches = append(i.batches, batch[T]{done: done})
	i.mu.Unlock()
	i.deliver()
}

// deliver hands on what is queued, unless another goroutine is at it: with one
// watch, that is never so.
func (i *Informer[T]) deliver() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.delivering {
		return
	}
	i.delivering = true
	for len(i.batches) > 0 {
		b := i.batches[0]
		i.batches[0], i.handing = batch[T]{}, b.came
		if i.batches = i.batches[1:]; len(i.batches) == 0 {
			i.batches = nil
		}
		for _, h := range b.handlers {
			if h.joining {
				h.pending = append(h.pending, b.events...)
				continue
			}
			i.mu.Unlock()
			i.handOn(h, b.events)
			i.mu.Lock()
		}
		if b.done != nil {
			i.mu.Unlock()
			b.done()
			i.mu.Lock()
		}
	}
	i.delivering, i.handing = false, time.Time{}
}

// waitingSince is when the oldest change came that has not been handed on to
// every handler: zero if there is none. The caller holds mu.
func (i *Informer[T]) waitingSince() time.Time {
	if !i.handing.IsZero() {
		return i.handing
	}
	for _, b := range i.batches {
		if !b.came.IsZero() {
			return b.came
		}
	}
	return time.Time{}
}

func (i *Informer[T]) handOn(h *handler[T], events []Event[T]) {
	for _, e := range events {
		if h.removed.Load() {
			return
		}
		i.call(h, e)
	}
}

// call delivers one event. A handler that panics misses that event: the others,
// and the watch, go on.
func (i *Informer[T]) call(h *handler[T], e Event[T]) {
	defer func() {
		if r := recover(); r != nil {
			i.counted.panics.Add(1)
			object := e.New
			if e.Type == Deleted {
				object = e.Old
			}
			i.log().Error(fmt.Errorf("panic: %v\n%s", r, debug.Stack()), "a handler panicked and has missed an event",
				"namespace", object.GetNamespace(), "name", object.GetName())
		}
	}()
	h.call(e)
}

// log is the session's logger, or klog's if there is no session.
func (i *Informer[T]) log() logr.Logger {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.session != nil {
		return klog.FromContext(i.session.ctx)
	}
	return klog.Background().WithName("informer").WithValues("informer", i.Name())
}
