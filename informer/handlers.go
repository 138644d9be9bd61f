package informer

import (
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer/internal/requests"
	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/calls"
	"github.com/homeostat/homeostat/internal/guard"
)

// EventType is the kind of change that an [Event] reports.
type EventType uint8

const (
	// Added means that the object was not cached before. Old is nil.
	Added EventType = iota + 1
	// Updated means that the object has changed.
	Updated
	// Deleted means that the object was deleted, or that the informer no longer
	// keeps it, although it may exist. For example, the object no longer
	// matches the selectors, its namespace or its shard was removed, or nothing
	// refers to it any longer. New is nil; Old is the last cached state.
	Deleted
)

// String returns "added", "updated" or "deleted", and "unknown" for any other
// value.
func (t EventType) String() string {
	names := [...]string{"unknown", "added", "updated", "deleted"}
	if int(t) >= len(names) {
		return names[0]
	}
	return names[t]
}

// Event tells a handler that an object has changed. Both objects are shared
// with every reader of the cache; do not modify them. They may be retained, and
// then stay in memory.
//
// Old and New of one event always have the same UID. A recreated object is
// first Deleted and then Added, even if both happened while the watch was down.
type Event[T Object] struct {
	Old, New T
	Type     EventType
	// Initial is true for an object that existed before the handler could see
	// it: it was in the first list, or was already cached when the handler was
	// added.
	Initial bool
}

// eventsOf appends to events the events that report c, a change of an object,
// and returns the result. matters(c) must be true. A change that replaces an
// object with a recreated one has two events, and any other change has one.
func eventsOf[T Object](c tree.Change[T], events []Event[T]) []Event[T] {
	switch {
	case c.Old == nil:
		return append(events, Event[T]{New: c.New.Object, Type: Added})
	case c.New == nil:
		return append(events, Event[T]{Old: c.Old.Object, Type: Deleted})
	case c.Old.Object.GetUID() != c.New.Object.GetUID():
		return append(events, Event[T]{Old: c.Old.Object, Type: Deleted}, Event[T]{New: c.New.Object, Type: Added})
	default:
		return append(events, Event[T]{Old: c.Old.Object, New: c.New.Object, Type: Updated})
	}
}

// handler is a function that is called for every change.
type handler[T Object] struct {
	call    func(Event[T])
	name    string // such as "the handler main.main.func1"
	removed atomic.Bool

	// delivery.mu guards the fields below.

	// joining is true while the cached objects are replayed.
	joining bool
	pending []Event[T] // events received during the replay
}

// batch is one delivery of the store: events for the handlers that were
// registered when the batch was queued, followed by a call of done.
type batch[T Object] struct {
	// published is when the change was published. It is zero if there are no
	// events.
	published time.Time
	events    []Event[T]
	handlers  []*handler[T]
	done      func()
}

// delivery calls handlers in the order of the changes, one call at a time.
type delivery[T Object] struct {
	counted *counters
	log     func() logr.Logger
	calls   *calls.Calls

	// mu guards the fields below. store.latest is also changed under it. So no
	// change is published while a handler is being added.
	mu         sync.Mutex
	handlers   []*handler[T]
	batches    []batch[T]
	delivering bool
	// missed contains the events that handlers have missed. An entry is removed
	// when its handler receives a later event of the same object, or when the
	// handler itself is removed.
	missed map[miss[T]]Problem
	// misses is len(missed), to be read without mu.
	misses atomic.Int64
}

// causeHandler is the cause of the problem of a missed event.
const causeHandler = "handler panics"

// miss identifies a handler and an object whose event the handler has missed.
type miss[T Object] struct {
	handler *handler[T]
	key     types.NamespacedName
}

// note records that h has missed an event of an object or, if err is nil, has
// received one. It records at most mostMissed missed events.
func (d *delivery[T]) note(h *handler[T], object T, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	missed := miss[T]{h, bound.KeyOf(object)}
	if delete(d.missed, missed); err != nil && len(d.missed) < mostMissed {
		if d.missed == nil {
			d.missed = map[miss[T]]Problem{}
		}
		d.missed[missed] = Problem{
			Object: strings.TrimPrefix(missed.key.String(), "/"), Cause: causeHandler, Since: time.Now(),
			Reason: "a handler has missed the object's last event: " + firstLineOf(err),
		}
	}
	d.misses.Store(int64(len(d.missed)))
}

// problems returns the missed events as problems.
func (d *delivery[T]) problems() []Problem {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.missed))
}

// mostMissed bounds the number of missed events that are recorded.
const mostMissed = 1000

// add replays the objects of the snapshot that known returns to a new handler,
// and then delivers every change since that snapshot.
func (d *delivery[T]) add(call func(Event[T]), known func() Snapshot[T]) *handler[T] {
	name := "the handler " + runtime.FuncForPC(reflect.ValueOf(call).Pointer()).Name()
	h := &handler[T]{call: call, name: name, joining: true}
	d.mu.Lock()
	d.handlers = append(slices.Clip(d.handlers), h)
	replayed := known()
	d.mu.Unlock()
	finished := false
	defer func() {
		if !finished { // the handler has ended this goroutine
			d.remove(h)
		}
	}()
	for object := range replayed.All() {
		d.call(h, Event[T]{New: object, Type: Added, Initial: true})
	}
	for unfinished := true; unfinished; {
		d.mu.Lock()
		pending := h.pending
		h.pending = nil
		unfinished = len(pending) > 0
		h.joining = unfinished
		d.mu.Unlock()
		d.callAll(h, pending)
	}
	finished = true
	return h
}

func (d *delivery[T]) remove(h *handler[T]) {
	h.removed.Store(true)
	d.mu.Lock()
	defer d.mu.Unlock()
	if index := slices.Index(d.handlers, h); index >= 0 {
		d.handlers = slices.Concat(d.handlers[:index], d.handlers[index+1:])
	}
	maps.DeleteFunc(d.missed, func(m miss[T], _ Problem) bool { return m.handler == h })
	d.misses.Store(int64(len(d.missed)))
}

// count returns the number of handlers, and the time at which the oldest
// undelivered change was published. The time is zero if all changes have been
// delivered to all handlers. Changes that wait for the replay to a new handler
// count as delivered.
func (d *delivery[T]) count() (handlers int, oldest time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n := 0; oldest.IsZero() && n < len(d.batches); n++ {
		oldest = d.batches[n].published
	}
	return len(d.handlers), oldest
}

// enqueue queues a batch. mu must be held. The caller calls run after it has
// released its locks.
func (d *delivery[T]) enqueue(b batch[T]) {
	if b.handlers = d.handlers; len(b.events) > 0 {
		b.published = time.Now()
	}
	d.counted.events.Add(int64(len(b.events)))
	d.batches = append(d.batches, b)
}

// notifyDelivered calls done when everything that is already queued has been
// delivered.
func (d *delivery[T]) notifyDelivered(done func()) {
	d.mu.Lock()
	d.batches = append(d.batches, batch[T]{done: done})
	d.mu.Unlock()
	d.run()
}

// run delivers the queued batches, unless another goroutine is doing so
// already. For example, another watch may be delivering, or a goroutine that
// adds shards. If a handler ends this goroutine (runtime.Goexit), the rest of
// the batch is still in the queue, and is delivered before the goroutine ends.
func (d *delivery[T]) run() {
	finished := false
	defer func() {
		if !finished {
			d.run()
		}
	}()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.delivering {
		finished = true
		return
	}
	d.delivering = true
	defer func() { d.delivering = false }()
	for len(d.batches) > 0 {
		d.runFirst()
	}
	d.batches, finished = nil, true
}

// runFirst delivers the first batch. mu must be held.
func (d *delivery[T]) runFirst() {
	for len(d.batches[0].handlers) > 0 {
		b := &d.batches[0]
		h, events := b.handlers[0], b.events
		if b.handlers = b.handlers[1:]; h.joining {
			h.pending = append(h.pending, events...)
			continue
		}
		d.unlocked(func() { d.callAll(h, events) })
	}
	done := d.batches[0].done
	d.batches[0] = batch[T]{}
	d.batches = d.batches[1:]
	if done != nil {
		d.unlocked(done)
	}
}

// unlocked releases mu while it calls f. The caller must hold mu.
func (d *delivery[T]) unlocked(f func()) {
	d.mu.Unlock()
	defer d.mu.Lock()
	f()
}

// callAll calls h for each event, even if one of the calls ends this goroutine.
func (d *delivery[T]) callAll(h *handler[T], events []Event[T]) {
	next := 0
	defer func() {
		if next < len(events) {
			d.callAll(h, events[next:])
		}
	}()
	for next < len(events) {
		next++
		d.call(h, events[next-1])
	}
}

// call delivers one event, unless the handler was removed. A handler that
// panics, or ends the goroutine, misses the event. Other handlers and the watch
// are not affected.
func (d *delivery[T]) call(h *handler[T], e Event[T]) {
	if h.removed.Load() {
		return
	}
	returned := false
	object := e.New
	if e.Type == Deleted {
		object = e.Old
	}
	call := d.calls.Begin(h.name, bound.KeyOf(object))
	defer func() {
		d.calls.End(call)
		err := requests.ErrGoexit
		if r := recover(); r != nil {
			err = guard.Panicked(r)
		} else if returned {
			if d.misses.Load() > 0 {
				d.note(h, object, nil)
			}
			return
		}
		d.counted.panics.Add(1)
		if e.Type != Deleted { // no later event of a deleted object would clear the problem
			d.note(h, object, err)
		}
		d.log().Error(err, "handler panicked and missed an event",
			"namespace", object.GetNamespace(), "name", object.GetName())
	}()
	h.call(e)
	returned = true
}

// counters contains the fields of a Status that only count, such as Lists.
type counters struct {
	requests.Counters

	events, panics atomic.Int64
}
