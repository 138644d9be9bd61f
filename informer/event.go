package informer

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// Type says what happened to the object of an [Event].
type Type uint8

const (
	// Added means that the object was not cached before. Old is nil.
	Added Type = iota + 1
	// Updated means that the object has changed.
	Updated
	// Deleted means that the object was deleted, or no longer matches the
	// informer's selectors. New is nil; Old is its last known state.
	Deleted
)

// String returns "added", "updated" or "deleted".
func (t Type) String() string {
	switch t {
	case Added:
		return "added"
	case Updated:
		return "updated"
	case Deleted:
		return "deleted"
	default:
		return "unknown"
	}
}

// Event tells a handler that an object has changed. Both objects are shared with
// every reader of the cache; do not modify them.
//
// Old and New of one event are always the same object, by UID: a recreated
// object is first Deleted and then Added, even if both happened while the watch
// was down.
type Event[T Object] struct {
	Old, New T
	Type     Type
	// Initial is true for an object that existed before the handler could see it:
	// it came with the first list, or was cached when the handler was added.
	Initial bool
}

// handler is a function that is called for every change.
type handler[T Object] struct {
	call    func(Event[T])
	removed atomic.Bool

	// delivery.mu guards what follows.
	// joining says that the cached objects are being replayed.
	joining bool
	pending []Event[T] // what has come meanwhile
}

// batch is what one change of the store delivers: events to the handlers of that
// moment, then a call of done.
type batch[T Object] struct {
	// came is when the change was published; zero if it has no events.
	came     time.Time
	events   []Event[T]
	handlers []*handler[T]
	done     func()
}

// delivery calls handlers in the order of the changes, one call at a time.
type delivery[T Object] struct {
	counted *counters
	log     func() logr.Logger

	// mu guards what follows, and store.latest against an Add of a handler.
	mu         sync.Mutex
	handlers   []*handler[T]
	batches    []batch[T]
	delivering bool
	// since is when the changes came that are being delivered.
	since time.Time
}

// add replays what known returns to a new handler, then delivers every change
// since known was called.
func (d *delivery[T]) add(call func(Event[T]), known func() Snapshot[T]) *handler[T] {
	h := &handler[T]{call: call, joining: true}
	d.mu.Lock()
	d.handlers = append(slices.Clip(d.handlers), h)
	replayed := known()
	d.mu.Unlock()
	for object := range replayed.All() {
		d.call(h, Event[T]{New: object, Type: Added, Initial: true})
	}
	for again := true; again; {
		d.mu.Lock()
		pending := h.pending
		h.pending = nil
		again = len(pending) > 0
		h.joining = again
		d.mu.Unlock()
		d.callAll(h, pending)
	}
	return h
}

func (d *delivery[T]) remove(h *handler[T]) {
	h.removed.Store(true)
	d.mu.Lock()
	defer d.mu.Unlock()
	if at := slices.Index(d.handlers, h); at >= 0 {
		d.handlers = splice(d.handlers, at, at+1)
	}
}

// count returns the number of handlers, and when the oldest change came that is
// not delivered to all of them: zero if there is none.
func (d *delivery[T]) count() (handlers int, since time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	since = d.since
	for n := 0; since.IsZero() && n < len(d.batches); n++ {
		since = d.batches[n].came
	}
	return len(d.handlers), since
}

// enqueue queues a batch. The caller holds mu, and calls run when it has let go
// of its locks.
func (d *delivery[T]) enqueue(b batch[T]) {
	if b.handlers = d.handlers; len(b.events) > 0 {
		b.came = time.Now()
	}
	d.counted.events.Add(int64(len(b.events)))
	d.batches = append(d.batches, b)
}

// after calls done when everything that is queued already has been delivered.
func (d *delivery[T]) after(done func()) {
	d.mu.Lock()
	d.batches = append(d.batches, batch[T]{done: done})
	d.mu.Unlock()
	d.run()
}

// run delivers what is queued, unless another goroutine does: with one watch, none
// does.
func (d *delivery[T]) run() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.delivering {
		return
	}
	d.delivering = true
	for len(d.batches) > 0 {
		b := d.batches[0]
		d.batches[0], d.since = batch[T]{}, b.came
		if d.batches = d.batches[1:]; len(d.batches) == 0 {
			d.batches = nil
		}
		for _, h := range b.handlers {
			if h.joining {
				h.pending = append(h.pending, b.events...)
				continue
			}
			d.mu.Unlock()
			d.callAll(h, b.events)
			d.mu.Lock()
		}
		if b.done != nil {
			d.mu.Unlock()
			b.done()
			d.mu.Lock()
		}
	}
	d.delivering, d.since = false, time.Time{}
}

func (d *delivery[T]) callAll(h *handler[T], events []Event[T]) {
	for _, e := range events {
		d.call(h, e)
	}
}

// call delivers one event. A handler that panics misses it; the other handlers and
// the watch go on.
func (d *delivery[T]) call(h *handler[T], e Event[T]) {
	if h.removed.Load() {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			d.counted.panics.Add(1)
			object := e.New
			if e.Type == Deleted {
				object = e.Old
			}
			d.log().Error(fmt.Errorf("panic: %v\n%s", r, debug.Stack()), "handler panicked and missed an event",
				"namespace", object.GetNamespace(), "name", object.GetName())
		}
	}()
	h.call(e)
}
