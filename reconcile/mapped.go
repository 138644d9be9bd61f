package reconcile

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/go-logr/logr"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/queue"
)

// Mapped looks at the keys that f returns for an object of in that changed.
//
// f gets the object before and after: nil (the zero O) before its creation and
// after its deletion. Events that come while f has not run yet are merged: f
// sees the oldest and the newest object. f may read caches and call the server,
// since it runs off the watch; it is called again, with back-off, when it
// returns an error or panics.
func Mapped[O informer.Object](in *informer.Informer[O], f func(old, new O) ([]Key, error)) Trigger {
	return mapped[O]{in: in, f: f}
}

type mapped[O informer.Object] struct {
	in *informer.Informer[O]
	f  func(old, new O) ([]Key, error)
}

func (t mapped[O]) source() source { return typed[O]{t.in} }
func (t mapped[O]) sort() string   { return "mapped" }

func (t mapped[O]) attach(c *Controller) (binding, error) {
	q, err := queue.New[Key](&queue.Options[Key]{
		Name:      c.name + "/" + t.in.Name(),
		Backoff:   queue.Backoff{Rand: c.options.Backoff.Rand},
		BeforeGet: c.options.BeforeGet,
	})
	if err != nil {
		return binding{}, err
	}
	m := &mapping[O]{mapped: t, controller: c, queue: q, feed: feedOf(t.in), events: map[Key]informer.Event[O]{}}
	return binding{detach: t.in.Handle(m.add), run: m.run}, nil
}

// A mapping carries events from the watch to the mapper, at most one per
// object.
type mapping[O informer.Object] struct {
	mapped[O]
	controller *Controller
	queue      *queue.Queue[Key]
	feed       *feed[O]

	mu     sync.Mutex // guards events
	events map[Key]informer.Event[O]
}

func (m *mapping[O]) add(e informer.Event[O]) {
	object := objectsOf(e)[0]
	key := Key{Namespace: object.GetNamespace(), Name: object.GetName()}
	m.mu.Lock()
	if earlier, ok := m.events[key]; ok {
		e = merged(earlier, e)
	}
	m.events[key] = e
	m.mu.Unlock()
	m.queue.AddWith(key, queue.Addition{Reset: true})
}

// merged is one event for two, of which the mapper has seen neither.
func merged[O informer.Object](first, second informer.Event[O]) informer.Event[O] {
	if first.Kind != informer.Added {
		second.Old = first.Old
		if second.Kind == informer.Added {
			second.Kind = informer.Updated
		}
	} else if second.Kind == informer.Updated {
		var none O
		second.Old, second.Kind = none, informer.Added
	}
	second.Initial = first.Initial && second.Initial
	return second
}

func (m *mapping[O]) run(ctx context.Context) {
	for {
		item, err := m.queue.Get(ctx)
		if err != nil {
			return
		}
		if err := m.apply(item.Key()); err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "mapping will be retried",
				"controller", m.controller.name, "attempt", item.Attempt())
			item.Retry()
			continue
		}
		item.Done()
	}
}

func (m *mapping[O]) apply(key Key) error {
	m.mu.Lock()
	e, ok := m.events[key]
	delete(m.events, key)
	m.mu.Unlock()
	if !ok {
		return nil
	}
	keys, err := m.call(e)
	if err != nil {
		m.restore(key, e)
		return fmt.Errorf("mapping %s %q to keys of controller %q: %w", m.in.Kind(), key, m.controller.name, err)
	}
	addition := m.feed.addition(e)
	for _, k := range keys {
		m.controller.queue.AddWith(k, addition)
	}
	return nil
}

// restore puts back an event that could not be mapped, under what has come
// since.
func (m *mapping[O]) restore(key Key, e informer.Event[O]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if later, ok := m.events[key]; ok {
		e = merged(e, later)
	}
	m.events[key] = e
}

func (m *mapping[O]) call(e informer.Event[O]) (keys []Key, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return m.f(e.Old, e.New)
}
