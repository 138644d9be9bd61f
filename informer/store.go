package informer

import (
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/intern"
	"github.com/homeostat/homeostat/internal/keyspace"
)

// store keeps the objects of an informer: the newest ones by key in a table, and
// each state in a persistent tree. One writer at a time changes both in one step,
// and queues the events for handlers; readers take no lock.
type store[T Object] struct {
	identity *identity
	sharer   *intern.Pool // nil if off
	detector *detector[T] // nil if off
	delivery delivery[T]
	// unreadable are the objects whose newest state cannot be stored.
	unreadable unreadables

	table  tree.Table[T]
	latest atomic.Pointer[state[T]] // never nil; written under delivery.mu
	// writing is held while the next state is computed and published.
	writing sync.Mutex
	// shards are those whose objects are kept; writing guards its changes.
	shards cover
}

func newStore[T Object](o *Options, id *identity) *store[T] {
	s := &store[T]{identity: id}
	if !o.NoSharing {
		s.sharer = intern.New()
	}
	if o.checksMutations() {
		s.detector = &detector[T]{identity: id, copies: map[*tree.Item[T]]T{}}
	}
	empty := &state[T]{labels: o.IndexLabels}
	if len(empty.labels) > 0 {
		empty.indexes = []tree.Index[T]{tree.NewPostings(labelsOf[T](empty.labels))}
	}
	s.latest.Store(empty)
	s.table.Fill(nil)
	return s
}

func (s *store[T]) snapshot() Snapshot[T] { return Snapshot[T]{s.latest.Load()} }

// share makes object use the memory of equal parts of its cached state, or else of other
// objects.
func (s *store[T]) share(object T) {
	switch it := s.table.Get(bound.KeyOf(object)); {
	case s.sharer == nil:
	case it != nil:
		s.sharer.Update(object, it.Object)
	default:
		s.sharer.Object(object)
	}
}

// put stores one object and delivers the change. An object that cannot be stored is
// noted.
func (s *store[T]) put(it *tree.Item[T]) {
	s.identity.learnKind(it.Object)
	s.writing.Lock()
	defer s.delivery.run()
	defer s.writing.Unlock() // also if the function of an index ends the goroutine
	s.putLocked(s.changeTo(it))
}

// putLocked is put without the delivery. The caller holds writing.
func (s *store[T]) putLocked(c tree.Change[T]) {
	if !matters(c) || !s.shards.admits(c.New.Key.Namespace) || s.shards.late.Load() && s.isPast(c) {
		return
	}
	why, next := whyStub(c.New.Object), (*state[T])(nil)
	if why == nil {
		next, why = s.after(c)
	}
	if why != nil {
		s.putRefused(c, why)
		return
	}
	s.detector.update(c) // before others have the object
	s.table.Put(c.New)
	ended := s.unreadable.remove(c.New.Key)
	s.publish(next, batch[T]{events: eventsOf(c, nil), done: s.unreadable.telling(ended, nil)})
}

// remove removes one object, of which last is the final state.
func (s *store[T]) remove(last T) {
	key := bound.KeyOf(last)
	s.writing.Lock()
	defer s.delivery.run()
	defer s.writing.Unlock()
	s.shards.deleted(key, last.GetResourceVersion())
	c := tree.Change[T]{Old: s.table.Get(key)}
	if s.shards.late.Load() && (c.Old != nil && versions.Older(last.GetResourceVersion(), c.Old.Object.GetResourceVersion()) ||
		s.unreadable.isNewer(key, last.GetResourceVersion())) {
		return
	}
	next, b := s.latest.Load(), batch[T]{}
	if c.Old != nil {
		if whyStub(last) != nil || c.Old.Object.GetUID() != last.GetUID() {
			last = c.Old.Object
		}
		s.table.Remove(key)
		s.detector.update(c)
		next, b.events = next.after(c), []Event[T]{{Old: last, Type: Deleted}}
	}
	ended := s.unreadable.remove(key)
	if c.Old != nil || len(ended) > 0 {
		b.done = s.unreadable.telling(ended, nil)
		s.publish(next, b)
	}
}

// replace makes items the whole content of a namespace ("" for all), delivers the
// changes, and then calls done.
func (s *store[T]) replace(namespace string, items []*tree.Item[T], how versions.Occasion, done func()) {
	for _, it := range items {
		s.identity.learnKind(it.Object)
	}
	tree.Sort(items)
	s.writing.Lock()
	defer s.delivery.run()
	defer s.writing.Unlock()
	s.publishList(func(of string) bool { return namespace == "" || of == namespace }, items, how, "", done)
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
	known := s.latest.Load().root.AppendItems(nil)
	next, changes, _ := s.list(everywhere, slices.DeleteFunc(known, func(it *tree.Item[T]) bool {
		return !stays(it.Key.Namespace)
	}), versions.Relist, "")
	s.publishChanges(next, changes, versions.Relist, nil)
	s.unreadable.removeIf(func(e *UnreadableError) bool { return !stays(e.Key.Namespace) })
}

// clearIfUnused removes all objects without delivering that, if there is no
// handler. The caller has made sure that no watch runs.
func (s *store[T]) clearIfUnused() {
	s.delivery.mu.Lock()
	defer s.delivery.mu.Unlock()
	if len(s.delivery.handlers) > 0 {
		return
	}
	next, _, _ := s.list(everywhere, nil, versions.Relist, "")
	s.latest.Store(next)
	s.unreadable.removeIf(func(*UnreadableError) bool { return true })
}

// addIndex adds the index that of returns for the known objects, and returns its number.
// Objects for which the index panics stay, but not in the index, and are unreadable.
func (s *store[T]) addIndex(of func(known []tree.Change[T]) tree.Index[T]) int {
	s.writing.Lock()
	defer s.delivery.run()
	defer s.writing.Unlock()
	next := *s.latest.Load()
	var known []tree.Change[T]
	var told []types.NamespacedName
	empty := of(nil)
	for _, it := range next.root.AppendItems(nil) {
		if why := caught(func() { empty.Try(it.Object) }); why != nil {
			s.refuse(refusedItem[T]{it, why, true})
			told = append(told, it.Key)
			continue
		}
		known = append(known, tree.Change[T]{New: it})
	}
	next.indexes = append(slices.Clip(next.indexes), of(known))
	s.publish(&next, batch[T]{done: s.unreadable.telling(told, nil)})
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
// content of the namespaces within. A list beside the watch may be older than what is
// known of an unreadable object: then rv is its resourceVersion, else empty. The caller
// holds writing.
func (s *store[T]) publishList(
	within func(string) bool, items []*tree.Item[T], how versions.Occasion, rv string, done func(),
) {
	next, changes, refused := s.list(within, items, how, rv)
	told := s.settleUnreadable(within, refused, how, rv)
	s.publishChanges(next, changes, how, s.unreadable.telling(told, done))
}

// publishChanges publishes the state after changes. The caller holds writing.
func (s *store[T]) publishChanges(next *state[T], changes []tree.Change[T], how versions.Occasion, done func()) {
	events := make([]Event[T], 0, len(changes))
	for _, c := range changes {
		events = eventsOf(c, events)
	}
	if how == versions.FirstList {
		for n := range events {
			events[n].Initial = events[n].Type == Added
		}
	}
	s.publish(next, batch[T]{events: events, done: done})
}

// list puts items, which are sorted, into the table as the whole content of the namespaces
// within, and returns the state that has them, what has changed, and what was refused. rv
// is that of publishList. The caller holds writing.
func (s *store[T]) list(
	within func(string) bool, items []*tree.Item[T], how versions.Occasion, rv string,
) (*state[T], []tree.Change[T], []refusedItem[T]) {
	items, refused := s.readable(items, how, rv)
	for {
		next := *s.latest.Load()
		all, changes := next.replaced(within, items, how)
		why := caught(func() { next.reindex(changes) })
		if why == nil {
			for _, r := range refused { // before the table may lose what it had of them
				s.refuse(r)
			}
			next.root, next.count = tree.Build(all), len(all)
			s.detector.update(changes...) // before others have the objects
			s.table.Fill(all)
			return &next, changes, refused
		}
		others, panicking := s.withoutPanics(items, changes)
		if len(panicking) == 0 {
			panic(why) // it panics for some calls only, not for some objects
		}
		items, refused = others, append(refused, panicking...)
	}
}

// checkMutations checks the objects of keys, or all.
func (s *store[T]) checkMutations(keys ...types.NamespacedName) error {
	if s.detector == nil {
		return nil
	}
	if len(keys) == 0 {
		return s.detector.check(s.latest.Load().root.AppendItems(nil)...)
	}
	items := make([]*tree.Item[T], 0, len(keys))
	for _, key := range keys {
		items = append(items, s.table.Get(key))
	}
	return s.detector.check(items...)
}

// ask begins a list of the watch, and returns the shards that it is to bring.
func (s *store[T]) ask() keyspace.Set {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.shards.asked = s.shards.wanted()
	return s.shards.asked
}

// filling returns the part that is being listed beside the watch, nil if none is.
func (s *store[T]) filling() *filling {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.shards.filling
}

// fill stores what a list beside the watch has brought at rv for f, as far as the cache
// is not newer. The caller delivers it.
//
// Errors: errGivenUp if the part is no longer wanted; errRestored if the list is of a
// state that the server has lost.
func (s *store[T]) fill(f *filling, set keyspace.Set, items []*tree.Item[T], rv string) error {
	s.writing.Lock()
	switch now := s.shards.filling; {
	case now == nil || !now.set.Includes(set): // it was removed, or all that was before
		s.writing.Unlock()
		return errGivenUp
	case now != f:
		s.writing.Unlock()
		return errRestored
	}
	left := f.left(rv)
	within := func(of string) bool { return of != "" && keyspace.Has(left, of) } // each list has those without one
	items = slices.DeleteFunc(items, func(it *tree.Item[T]) bool {
		rv, again := f.deleted[it.Key]
		return !within(it.Key.Namespace) || again && versions.Older(it.Object.GetResourceVersion(), rv)
	})
	items = s.newest(items, within, rv)
	tree.Sort(items)
	s.publishList(within, items, versions.Relist, rv, nil)
	s.shards.filled(left, rv)
	s.writing.Unlock()
	return nil
}

// replaceShards makes the list of the watch that is under way, at rv, the whole content
// of its shards, delivers what that changes, and then calls done.
func (s *store[T]) replaceShards(rv string, items []*tree.Item[T], how versions.Occasion, done func()) {
	for _, it := range items {
		s.identity.learnKind(it.Object)
	}
	s.writing.Lock()
	if how == versions.RestoredList {
		s.shards.restored()
	}
	s.shards.caughtUp(rv)
	asked := s.shards.asked
	within := func(of string) bool { return keyspace.Has(asked, of) && s.shards.admits(of) }
	items = slices.DeleteFunc(items, func(it *tree.Item[T]) bool { return !within(it.Key.Namespace) })
	if s.shards.late.Load() {
		items = slices.DeleteFunc(s.newest(items, within, rv), func(it *tree.Item[T]) bool {
			return s.isPast(s.changeTo(it))
		})
	}
	tree.Sort(items)
	upTo := ""
	if s.shards.late.Load() {
		upTo = rv
	}
	s.publishList(within, items, how, upTo, nil)
	s.shards.listed(rv)
	s.writing.Unlock()
	s.delivery.after(done) // not with the list: another goroutine may deliver it before its shards are complete
}

// newest returns items, which were listed at rv, with the cached ones instead that are
// newer. The caller holds writing.
func (s *store[T]) newest(items []*tree.Item[T], within func(string) bool, rv string) []*tree.Item[T] {
	listed := make(map[types.NamespacedName]bool, len(items))
	for n, it := range items {
		listed[it.Key] = true
		if c := s.changeTo(it); isBack(c) {
			items[n] = c.Old
		}
	}
	for _, it := range s.latest.Load().root.AppendItems(nil) {
		if within(it.Key.Namespace) && !listed[it.Key] && versions.Older(rv, it.Object.GetResourceVersion()) {
			items = append(items, it)
		}
	}
	return items
}

// isPast reports whether a change would bring back what was before a list beside the
// watch: an earlier state, or an object that is deleted. The caller holds writing.
func (s *store[T]) isPast(c tree.Change[T]) bool {
	return isBack(c) || s.unreadable.isNewer(c.New.Key, c.New.Object.GetResourceVersion()) ||
		c.Old == nil && s.shards.outdated(c.New.Key, c.New.Object.GetResourceVersion())
}

// caughtUp notes that the watch has come to rv.
func (s *store[T]) caughtUp(rv string) {
	if !s.shards.late.Load() {
		return
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	s.shards.caughtUp(rv)
}

// changeTo returns the change from what is cached to it. The caller holds writing.
func (s *store[T]) changeTo(it *tree.Item[T]) tree.Change[T] {
	return tree.Change[T]{Old: s.table.Get(it.Key), New: it}
}

// matters reports whether a change has changed anything. Only fakes leave the
// resourceVersion empty.
func matters[T Object](c tree.Change[T]) bool {
	if c.Old == nil || c.New == nil {
		return true
	}
	a, b := c.Old.Object, c.New.Object
	if a.GetUID() != b.GetUID() || a.GetResourceVersion() != b.GetResourceVersion() {
		return true
	}
	return a.GetResourceVersion() == "" && (intern.Lazy(b) || !intern.Alike(a, b))
}

// isBack reports whether a change would bring back an earlier state.
func isBack[T Object](c tree.Change[T]) bool {
	return c.Old != nil && versions.Older(c.New.Object.GetResourceVersion(), c.Old.Object.GetResourceVersion())
}
