package informer

import (
	"slices"
	"sync/atomic"
	"time"
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
// remove returns.
func (i *Informer[T]) Handle(h func(Event[T])) (remove func()) {
	joined := &handler[T]{call: h, joining: true}
	i.mu.Lock()
	i.handlers = append(slices.Clip(i.handlers), joined)
	known := i.Snapshot()
	i.mu.Unlock()
	for object := range known.All() {
		if !joined.removed.Load() {
			h(Event[T]{New: object, Kind: Added, Initial: true})
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
		h.handOn(pending)
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
			h.handOn(b.events)
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

func (h *handler[T]) handOn(events []Event[T]) {
	for _, e := range events {
		if h.removed.Load() {
			return
		}
		h.call(e)
	}
}
