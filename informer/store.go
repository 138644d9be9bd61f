package informer

import (
	"slices"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/intern"
)

// state is the content of the store at one moment, indexes included. It is
// immutable.
type state[T Object] struct {
	root    *node[T]
	count   int
	indexes []index[T]
	labels  *postings[T, label] // nil without Options.IndexLabels
	indexed []string            // Options.IndexLabels
}

// store keeps the objects of an informer: the newest ones by key in a table, and
// each state in a persistent tree. One writer at a time changes both in one step,
// and queues what handlers have to know; readers take no lock.
type store[T Object] struct {
	identity *identity
	sharer   *intern.Pool // nil if off
	detector *detector[T] // nil if off
	delivery delivery[T]

	table  table[T]
	latest atomic.Pointer[state[T]] // never nil; written under delivery.mu
	// writing is held while the next state is computed and published.
	writing sync.Mutex
	// shards are those whose objects are kept; writing guards its changes.
	shards cover
}

// change is one change of one object: old is nil if it was not known, it is nil
// if it was deleted.
type change[T Object] struct{ old, it *item[T] }

func newStore[T Object](o *Options, id *identity) *store[T] {
	s := &store[T]{identity: id}
	if !o.NoSharing {
		s.sharer = intern.New()
	}
	if o.checksMutations() {
		s.detector = &detector[T]{identity: id, copies: map[*item[T]]T{}}
	}
	empty := &state[T]{indexed: o.IndexLabels}
	if len(o.IndexLabels) > 0 {
		empty.labels = newPostings(labelsOf[T](o.IndexLabels))
	}
	s.latest.Store(empty)
	return s
}

func keyOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

func itemOf[T Object](object T) *item[T] {
	return &item[T]{key: keyOf(object), object: object}
}

func (s *store[T]) snapshot() Snapshot[T] { return Snapshot[T]{s.latest.Load()} }

// share makes what object has in common with its cached state, or else with other
// objects, one in memory.
func (s *store[T]) share(object T) {
	switch it := s.table.get(keyOf(object)); {
	case s.sharer == nil:
	case it != nil:
		s.sharer.Update(object, it.object)
	default:
		s.sharer.Object(object)
	}
}

// put stores one object and delivers the change.
func (s *store[T]) put(it *item[T]) {
	s.identity.learnKind(it.object)
	s.writing.Lock()
	c := change[T]{s.table.get(it.key), it}
	if !c.matters() || !s.shards.admits(it.key.Namespace) || s.shards.isLate() && s.isPast(c) {
		s.writing.Unlock()
		return
	}
	s.detector.update(c) // before others have the object
	s.table.put(it)
	s.publish(s.latest.Load().after(c), batch[T]{events: c.events(nil)})
	s.writing.Unlock()
	s.delivery.run()
}

// remove removes one object, of which last is the final state.
func (s *store[T]) remove(last T) {
	key := keyOf(last)
	s.writing.Lock()
	s.shards.deleted(key, last.GetResourceVersion())
	c := change[T]{old: s.table.get(key)}
	if c.old == nil || s.shards.isLate() && older(last.GetResourceVersion(), c.old.object.GetResourceVersion()) {
		s.writing.Unlock()
		return
	}
	if c.old.object.GetUID() != last.GetUID() {
		last = c.old.object
	}
	s.table.remove(key)
	s.detector.update(c)
	s.publish(s.latest.Load().after(c), batch[T]{events: []Event[T]{{Old: last, Type: Deleted}}})
	s.writing.Unlock()
	s.delivery.run()
}

// replace makes items the whole content of a namespace ("" for all), delivers what
// that changes, and then calls done.
func (s *store[T]) replace(namespace string, items []*item[T], initial bool, done func()) {
	for _, it := range items {
		s.identity.learnKind(it.object)
	}
	sortItems(items)
	s.writing.Lock()
	s.publishList(func(of string) bool { return namespace == "" || of == namespace }, items, initial, done)
	s.writing.Unlock()
	s.delivery.run()
}

// retain removes the objects of all namespaces but some, and delivers that.
func (s *store[T]) retain(stays func(namespace string) bool) {
	s.writing.Lock()
	defer s.delivery.run()
	defer s.writing.Unlock()
	s.retainLocked(stays)
}

// retainLocked is retain without the delivery. The caller holds writing.
func (s *store[T]) retainLocked(stays func(namespace string) bool) {
	s.publishList(everywhere, slices.DeleteFunc(s.latest.Load().root.appendItems(nil), func(it *item[T]) bool {
		return !stays(it.key.Namespace)
	}), false, nil)
}

// everywhere is every namespace.
func everywhere(string) bool { return true }

// clearIfUnused removes all objects without delivering that, if there is no
// handler. The caller has made sure that no watch runs.
func (s *store[T]) clearIfUnused() {
	s.delivery.mu.Lock()
	defer s.delivery.mu.Unlock()
	if len(s.delivery.handlers) > 0 {
		return
	}
	before := s.latest.Load()
	empty := &state[T]{indexed: before.indexed}
	if before.labels != nil {
		empty.labels = newPostings(before.labels.of)
	}
	for _, x := range before.indexes {
		empty.indexes = append(empty.indexes, x.empty())
	}
	s.latest.Store(empty)
	s.table.clear()
	s.detector.clear()
}

// addIndex adds the index that of returns for the known objects, and
// returns its number.
func (s *store[T]) addIndex(of func(known []change[T]) index[T]) int {
	s.writing.Lock()
	defer s.writing.Unlock()
	next := *s.latest.Load()
	var known []change[T]
	for _, it := range next.root.appendItems(nil) {
		known = append(known, change[T]{it: it})
	}
	next.indexes = append(slices.Clip(next.indexes), of(known))
	s.publish(&next, batch[T]{})
	return len(next.indexes) - 1
}

// publish makes next the newest state and queues what has to be delivered. The
// caller holds writing, and calls delivery.run when it has let go of it.
func (s *store[T]) publish(next *state[T], b batch[T]) {
	s.delivery.mu.Lock()
	defer s.delivery.mu.Unlock()
	s.latest.Store(next)
	s.delivery.enqueue(b)
}

// publishList publishes the state in which items, which are sorted, are the whole
// content of the namespaces within. The caller holds writing.
func (s *store[T]) publishList(within func(string) bool, items []*item[T], initial bool, done func()) {
	next := *s.latest.Load()
	all, changes := next.replaced(within, items)
	next.root, next.count = build(all), len(all)
	next.reindex(changes)
	s.detector.update(changes...) // before others have the objects
	s.table.fill(all)
	events := make([]Event[T], 0, len(changes))
	for _, c := range changes {
		events = c.events(events)
	}
	if initial {
		for n := range events {
			events[n].Initial = events[n].Type == Added
		}
	}
	s.publish(&next, batch[T]{events: events, done: done})
}

// after returns s after a change that matters.
func (s *state[T]) after(c change[T]) *state[T] {
	next := *s
	if c.it == nil {
		next.root = s.root.without(c.old.key)
		next.count--
	} else if next.root = s.root.swap(c.old, c.it); next.root == nil {
		next.root = s.root.with(c.it)
		if c.old == nil {
			next.count++
		}
	}
	if s.labels != nil || len(s.indexes) > 0 {
		next.reindex([]change[T]{c})
	}
	return &next
}

// reindex applies changes to the indexes of s, which is not published yet.
func (s *state[T]) reindex(changes []change[T]) {
	if s.labels != nil {
		s.labels = s.labels.apply(changes)
	}
	indexes := s.indexes
	s.indexes = make([]index[T], len(indexes))
	for n, x := range indexes {
		s.indexes[n] = x.after(changes)
	}
}

// replaced returns all items when items, which are sorted, become the whole content
// of the namespaces within, and the changes that make the difference. Items whose
// objects have not changed stay.
func (s *state[T]) replaced(within func(string) bool, items []*item[T]) (all []*item[T], changes []change[T]) {
	var before []*item[T]
	all = make([]*item[T], 0, len(items))
	for _, it := range s.root.appendItems(make([]*item[T], 0, s.count)) {
		if within(it.key.Namespace) {
			before = append(before, it)
		} else {
			all = append(all, it)
		}
	}
	others := len(all)
	for len(before) > 0 || len(items) > 0 {
		var c change[T]
		switch {
		case len(items) > 1 && items[0].key == items[1].key:
			items = items[1:]
			continue
		case len(items) == 0 || len(before) > 0 && compareKeys(before[0].key, items[0].key) < 0:
			c.old, before = before[0], before[1:]
		case len(before) == 0 || compareKeys(items[0].key, before[0].key) < 0:
			c.it, items = items[0], items[1:]
		default:
			c, before, items = change[T]{before[0], items[0]}, before[1:], items[1:]
		}
		switch {
		case !c.matters():
			all = append(all, c.old)
			continue
		case c.it != nil:
			all = append(all, c.it)
		}
		changes = append(changes, c)
	}
	if others > 0 {
		sortItems(all)
	}
	return all, changes
}

// matters reports whether anything has changed. Only fakes leave the
// resourceVersion empty.
func (c change[T]) matters() bool {
	if c.old == nil || c.it == nil {
		return true
	}
	a, b := c.old.object, c.it.object
	if a.GetUID() != b.GetUID() || a.GetResourceVersion() != b.GetResourceVersion() {
		return true
	}
	return a.GetResourceVersion() == "" && (intern.Lazy(b) || !intern.Alike(a, b))
}

// isBack reports whether a change would bring back an earlier state.
func (c change[T]) isBack() bool {
	return c.old != nil && older(c.it.object.GetResourceVersion(), c.old.object.GetResourceVersion())
}

// events appends the events of a change that matters: two for a recreated object.
func (c change[T]) events(to []Event[T]) []Event[T] {
	switch {
	case c.old == nil:
		return append(to, Event[T]{New: c.it.object, Type: Added})
	case c.it == nil:
		return append(to, Event[T]{Old: c.old.object, Type: Deleted})
	case c.old.object.GetUID() != c.it.object.GetUID():
		return append(to, Event[T]{Old: c.old.object, Type: Deleted}, Event[T]{New: c.it.object, Type: Added})
	default:
		return append(to, Event[T]{Old: c.old.object, New: c.it.object, Type: Updated})
	}
}

// checkMutations checks the objects of keys, or all.
func (s *store[T]) checkMutations(keys ...types.NamespacedName) error {
	if s.detector == nil {
		return nil
	}
	if len(keys) == 0 {
		return s.detector.check(s.latest.Load().root.appendItems(nil)...)
	}
	items := make([]*item[T], 0, len(keys))
	for _, key := range keys {
		items = append(items, s.table.get(key))
	}
	return s.detector.check(items...)
}
