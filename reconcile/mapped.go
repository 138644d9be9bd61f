package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/guard"
	"github.com/homeostat/homeostat/queue"
)

// slowMapping is the duration of a call of a mapper after which other calls
// stop waiting for it. While slow calls run, the next ones are waited for half
// as long for each of them, down to shortestMapping. So 300 calls that hang
// delay a call that does not hang by half a minute instead of five minutes.
const (
	slowMapping     = time.Second
	shortestMapping = 100 * time.Millisecond
)

// Mapped returns a trigger that reconciles the keys that f returns for each
// changed object of cache.
//
// f receives the object before and after the change: nil (the zero O) before
// its creation and after its deletion. Both are shared; do not modify them.
// Changes that wait for a call of f are merged: f receives the oldest and the
// newest object. f is also called for each object of the first list.
//
// f may return keys without an object. A nil slice means that the change
// concerns no key. Keys that are returned together with an error are ignored. f
// runs on every replica, even while another replica leads. Changes still
// waiting when the controller stops are dropped.
//
// f may read caches and call the server, with a context that ends after
// Options.ReconcileTimeout. If it returns an error or panics, it is called
// again, with back-off. If it fails for a minute, /readyz names it as a
// problem. Calls for one object never overlap. Calls for different objects
// overlap only while a call takes longer than a second. Namespaces are served
// in turn. For example, if the calls for all objects of one namespace hang, a
// call for an object of another namespace waits for a second.
func Mapped[O informer.Object](
	cache *informer.Informer[O], f func(ctx context.Context, old, new O) ([]Key, error),
) Trigger {
	return mapped[O]{cache: cache, f: f}
}

type mapped[O informer.Object] struct {
	cache *informer.Informer[O]
	f     func(ctx context.Context, old, new O) ([]Key, error)
}

func (t mapped[O]) source() source { return typed[O]{t.cache} }

func (t mapped[O]) triggerType() string { return "mapped" }

func (t mapped[O]) hasFunction() bool { return t.f != nil }

// attach queues the events of the informer for the mapper. The function run of
// the binding calls the mapper in other goroutines, because a slow mapper must
// not block the watch.
func (t mapped[O]) attach(c *intake) binding {
	q, _ := queue.New(&queue.Options[Key]{ // these options are always valid
		Name: c.name + "/" + t.cache.Name(), Group: func(key Key) string { return key.Namespace },
	})
	m := &mapping[O]{mapped: t, intake: c, queue: q, feed: feedOf(t.cache), events: map[Key]waitingEvent[O]{}}
	m.source = c.sources.indexOf(typed[O]{t.cache})
	return binding{detach: t.cache.Handle(m.add), run: m.run}
}

// mapping holds the events that wait for the mapper, at most one per object.
type mapping[O informer.Object] struct {
	mapped[O]
	intake  *intake
	queue   *queue.Queue[Key]
	source  int
	crossed atomic.Bool  // whether checkShard has logged its error
	slow    atomic.Int64 // the number of running calls for which relieve has started another goroutine

	mu     sync.Mutex // guards the fields below
	feed   *feed[O]
	events map[Key]waitingEvent[O]
}

// waitingEvent is an event that waits for the mapper.
type waitingEvent[O informer.Object] struct {
	informer.Event[O]

	change change // what is known of it, and of the events that it replaces
}

// after returns e as one event that also replaces an earlier one.
func (e waitingEvent[O]) after(first waitingEvent[O]) waitingEvent[O] {
	return waitingEvent[O]{merged(first.Event, e.Event), e.change.after(first.change)}
}

// add adds the object of an event to the queue. The event is merged with an
// earlier one that still waits.
func (m *mapping[O]) add(e informer.Event[O]) {
	key := bound.KeyOf(objectOf(e))
	waiting := waitingEvent[O]{e, changeOf(m.source, e)}
	m.mu.Lock()
	if earlier, ok := m.events[key]; ok {
		waiting = waiting.after(earlier)
	}
	m.events[key] = waiting
	m.mu.Unlock()
	m.queue.AddWithOptions(key, queue.AddOptions{ResetBackoff: true})
}

// merged returns one event that replaces two events that the mapper has not
// seen.
func merged[O informer.Object](first, second informer.Event[O]) informer.Event[O] {
	if first.Type != informer.Added {
		second.Old = first.Old
		if second.Type == informer.Added {
			second.Type = informer.Updated
		}
	} else if second.Type == informer.Updated {
		var zero O
		second.Old, second.Type = zero, informer.Added
	}
	second.Initial = first.Initial && second.Initial
	return second
}

// run maps events until ctx ends, and returns after the last call.
func (m *mapping[O]) run(ctx context.Context) {
	var running sync.WaitGroup
	m.spawn(ctx, &running)
	running.Wait()
}

// spawn starts a goroutine that maps one object after the other. If a call
// takes long, another goroutine takes over the remaining objects.
func (m *mapping[O]) spawn(ctx context.Context, running *sync.WaitGroup) {
	m.intake.watchdog.spawn(running, func(s *worker) bool {
		item, err := m.queue.Get(ctx)
		if err != nil {
			return false
		}
		e, ok := m.take(item.Key())
		if !ok {
			item.Done()
			return true
		}
		patience := max(slowMapping>>min(m.slow.Load(), 10), shortestMapping)
		if s.relief == nil {
			s.relief = time.AfterFunc(patience, func() { m.relieve(ctx, running, s) })
		} else {
			s.relief.Reset(patience)
		}
		defer func() { // also if the mapper ends the goroutine
			s.relief.Stop()
			if s.replaced {
				m.slow.Add(-1)
			}
		}()
		m.serve(ctx, s, item, e)
		return !s.replaced
	})
}

// relieve starts another goroutine for the waiting events, unless the call of s
// has returned.
func (m *mapping[O]) relieve(ctx context.Context, running *sync.WaitGroup, s *worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.call != nil && !s.replaced { // while the call runs, running cannot end
		s.replaced = true
		m.slow.Add(1)
		m.spawn(ctx, running)
	}
}

// serve maps one object, enqueues the keys and ends the object's item, even if
// the mapper ends the goroutine (runtime.Goexit).
func (m *mapping[O]) serve(running context.Context, s *worker, item queue.Item[Key], e waitingEvent[O]) {
	call := &mapperCall{callContext: beginCall(running, m.intake.timeout), mapper: m.cache, key: item.Key()}
	defer call.end()
	err := guard.ErrGoexit
	s.begin(call)
	defer func() {
		m.finish(call, item, e, err)
		s.end()
	}()
	var keys []Key
	if keys, err = m.call(call, e.Event); err != nil {
		err = printable(err)
		return
	}
	m.mu.Lock()
	addition := m.feed.addition(e.Event)
	m.mu.Unlock()
	for _, k := range keys {
		m.checkShard(call, item.Key(), k)
		m.intake.loops.add(k, &e.change, addition)
	}
}

// finish ends the item of a call. If the call has failed, it logs and records
// the error, and the event is mapped again later.
func (m *mapping[O]) finish(call *mapperCall, item queue.Item[Key], e waitingEvent[O], err error) {
	fault := faultKey{function: m, object: item.Key()}
	if err == nil {
		m.intake.triggerFaults.succeeded(fault)
		item.Done()
		return
	}
	m.restore(item.Key(), e)
	m.intake.triggerFaults.failed(fault, call.subject(), err, 0)
	err = fmt.Errorf("mapping %s %q to keys of controller %q: %w", m.cache.Kind(), item.Key(), m.intake.name, err)
	klog.FromContext(call).Error(err, "mapping failed, retrying",
		"controller", m.intake.name, "attempt", item.Attempt())
	item.Retry()
}

// checkShard logs, once, that a mapper has returned a key that is not in the
// namespace of the object. Another replica may own that key, and that replica
// does not see the object.
func (m *mapping[O]) checkShard(ctx context.Context, object, key Key) {
	if object.Namespace == key.Namespace || object.Namespace == "" ||
		!m.intake.ranged || !m.cache.Status().Divided || m.crossed.Swap(true) {
		return
	}
	klog.FromContext(ctx).Error(errCrossed, "some changes do not reach the replica that reconciles the key",
		"controller", m.intake.name, "informer", m.cache.Name(), "object", object, "key", key)
}

// errCrossed is the error that checkShard logs.
var errCrossed = errors.New("a mapper has returned a key of another namespace, and the informer keeps the objects of " +
	"this replica's shards only: set informer.Options.Whole")

// take removes the waiting event of the object with this key, and returns it.
// It returns false if no event is waiting.
func (m *mapping[O]) take(key Key) (waitingEvent[O], bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.events[key]
	delete(m.events, key)
	return e, ok
}

// restore puts back an event that could not be mapped. If a later event of the
// object is waiting, it merges the two.
func (m *mapping[O]) restore(key Key, e waitingEvent[O]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if newest, ok := m.events[key]; ok {
		e = newest.after(e)
	}
	m.events[key] = e
}

// call calls the mapper, and returns a panic as an error.
func (m *mapping[O]) call(ctx context.Context, e informer.Event[O]) (keys []Key, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = guard.Panicked(r)
		}
	}()
	return m.f(ctx, e.Old, e.New)
}

// mapperCall is the context of one call of a mapper.
type mapperCall struct {
	callContext

	mapper interface{ Name() string }
	key    Key
}

func (c *mapperCall) subject() string {
	return fmt.Sprintf("the mapper of %s for %q", c.mapper.Name(), c.key)
}
