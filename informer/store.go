package informer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/informer/internal/itemwise"
	"github.com/homeostat/homeostat/informer/internal/mutations"
	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/calls"
	"github.com/homeostat/homeostat/internal/intern"
)

// store keeps the objects of an informer. A table has the newest objects by
// key, and a persistent tree has each state. One writer at a time changes the
// table, then publishes the new tree and queues the events for handlers.
// Readers take no lock.
type store[T Object] struct {
	identity *identity
	sharer   *intern.Pool           // nil if the options switch it off
	detector *mutations.Detector[T] // nil if the options switch it off
	delivery delivery[T]
	// keeps reports whether the objects stay in the store when the informer is
	// not running.
	keeps bool
	// unreadable contains the objects whose newest state cannot be stored.
	unreadable unreadables
	// calls are the calls of Options.Transform, of indexes and of handlers.
	calls calls.Calls

	table  tree.Table[T]
	latest atomic.Pointer[state[T]] // never nil; written under delivery.mu
	// writing is held while the next state is computed and published.
	writing sync.Mutex
}

// contents receives the objects of a watch. It is the whole cache or the cache
// of some shards.
type contents[T Object] interface {
	Put(item *tree.Item[T])
	Remove(last T)
	Replace(rv string, items []*tree.Item[T], occasion versions.Occasion, done func())
	CaughtUp(rv string)
}

// whole stores the objects of one namespace, or of all namespaces if the name
// is empty, in a store that keeps all objects.
type whole[T Object] struct {
	store     *store[T]
	namespace string
}

// Put implements [contents].
func (w whole[T]) Put(item *tree.Item[T]) { w.store.put(item) }

// Remove implements [contents].
func (w whole[T]) Remove(last T) { w.store.remove(last) }

// Replace implements [contents].
func (w whole[T]) Replace(_ string, items []*tree.Item[T], occasion versions.Occasion, done func()) {
	w.store.replace(w.namespace, items, occasion, done)
}

// CaughtUp has no effect, because all objects are listed by the watch.
func (w whole[T]) CaughtUp(string) {}

func newStore[T Object](o *Options, id *identity) *store[T] {
	s := &store[T]{identity: id}
	s.delivery.calls = &s.calls
	if !o.NoSharing {
		s.sharer = intern.New()
	}
	if o.checksMutations() {
		s.detector = mutations.New[T]()
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

// share makes object use the memory of equal parts of its cached state and of
// other objects. It does nothing if Options.NoSharing is set.
func (s *store[T]) share(object T) {
	switch item := s.table.Get(bound.KeyOf(object)); {
	case s.sharer == nil:
	case item != nil:
		s.sharer.Update(object, item.Object)
	default:
		s.sharer.Object(object)
	}
}

// put stores item, and delivers the change. If the object cannot be stored, put
// records it as unreadable.
func (s *store[T]) put(item *tree.Item[T]) {
	s.identity.learnKind(item.Object)
	s.writing.Lock()
	defer s.delivery.run()
	defer s.writing.Unlock() // deferred, because the function of an index may end the goroutine
	s.putLocked(s.changeTo(item))
}

// putLocked is put without the delivery. The caller holds writing.
func (s *store[T]) putLocked(c tree.Change[T]) {
	if matters(c) {
		s.storeChange(c)
	}
}

// storeChange stores a change, and reports whether it could be stored. The
// caller holds writing, and calls delivery.run after releasing it.
func (s *store[T]) storeChange(c tree.Change[T]) bool {
	refusal, next := itemwise.RefusalOf(c.New.Object), (*state[T])(nil)
	if refusal == nil {
		next, refusal = s.afterChange(c)
	}
	if refusal != nil {
		s.putRefused(c, refusal)
		return false
	}
	s.detector.Update(c) // before readers can modify the object
	s.table.Put(c.New)
	ended := s.unreadable.remove(c.New.Key)
	s.publish(next, batch[T]{events: eventsOf(c, nil), done: s.unreadable.telling(ended, nil)})
	return true
}

// remove removes one object. last is its final state.
func (s *store[T]) remove(last T) {
	s.writing.Lock()
	defer s.delivery.run()
	defer s.writing.Unlock()
	s.removeLocked(bound.KeyOf(last), last)
}

// removeLocked is remove without the delivery. The caller holds writing.
func (s *store[T]) removeLocked(key types.NamespacedName, last T) {
	c := tree.Change[T]{Old: s.table.Get(key)}
	next, b := s.latest.Load(), batch[T]{}
	if c.Old != nil {
		if itemwise.RefusalOf(last) != nil || c.Old.Object.GetUID() != last.GetUID() {
			last = c.Old.Object
		}
		s.table.Remove(key)
		s.detector.Update(c)
		next, b.events = next.apply(c), []Event[T]{{Old: last, Type: Deleted}}
	}
	ended := s.unreadable.remove(key)
	if c.Old != nil || len(ended) > 0 {
		b.done = s.unreadable.telling(ended, nil)
		s.publish(next, b)
	}
}

// forget removes the object of key, because the object does not exist or its
// state is no longer known.
func (s *store[T]) forget(key types.NamespacedName) {
	s.writing.Lock()
	defer s.delivery.run()
	defer s.writing.Unlock()
	var last T
	if item := s.table.Get(key); item != nil {
		last = item.Object
	}
	s.removeLocked(key, last)
}

// replace replaces the whole content of a namespace ("" for all namespaces)
// with items, delivers the changes, and then calls done.
func (s *store[T]) replace(namespace string, items []*tree.Item[T], occasion versions.Occasion, done func()) {
	for _, item := range items {
		s.identity.learnKind(item.Object)
	}
	tree.Sort(items)
	s.writing.Lock()
	defer s.delivery.run()
	defer s.writing.Unlock()
	s.publishList(func(listed string) bool { return namespace == "" || listed == namespace }, items, occasion, "", done)
}

// retain removes the objects of all namespaces for which stays returns false,
// and delivers the changes.
func (s *store[T]) retain(stays func(namespace string) bool) {
	s.writing.Lock()
	defer s.delivery.run()
	defer s.writing.Unlock()
	s.retainLocked(stays)
}

// retainLocked is retain without the delivery. The caller holds writing.
func (s *store[T]) retainLocked(stays func(namespace string) bool) {
	known := s.latest.Load().root.AppendItems(nil)
	next, changes, _ := s.list(everywhere, slices.DeleteFunc(known, func(item *tree.Item[T]) bool {
		return !stays(item.Key.Namespace)
	}), versions.Relist, "")
	s.publishChanges(next, changes, versions.Relist, nil)
	s.unreadable.removeIf(func(e *UnreadableError) bool { return !stays(e.Key.Namespace) })
}

// clearIfUnused removes all objects, and delivers no changes. It does nothing
// if there is a handler, or if the store keeps its objects. The caller must
// make sure that no watch runs.
func (s *store[T]) clearIfUnused() {
	s.delivery.mu.Lock()
	defer s.delivery.mu.Unlock()
	if s.keeps || len(s.delivery.handlers) > 0 {
		return
	}
	next, _, _ := s.list(everywhere, nil, versions.Relist, "")
	s.latest.Store(next)
	s.unreadable.removeIf(func(*UnreadableError) bool { return true })
}

// addIndex adds the index that indexOf returns for the known objects, and
// returns its number. An object for which the index panics is not in the index,
// and is unreadable.
func (s *store[T]) addIndex(indexOf func(known []tree.Change[T]) tree.Index[T]) int {
	s.writing.Lock()
	defer s.delivery.run()
	defer s.writing.Unlock()
	next := *s.latest.Load()
	var known []tree.Change[T]
	var told []types.NamespacedName
	empty := indexOf(nil)
	for _, item := range next.root.AppendItems(nil) {
		if refusal := s.caught(item.Key, func() { empty.Try(item.Object) }); refusal != nil {
			s.refuse(refusedItem[T]{item, refusal, true})
			told = append(told, item.Key)
			continue
		}
		known = append(known, tree.Change[T]{New: item})
	}
	next.indexes = append(slices.Clip(next.indexes), indexOf(known))
	s.publish(&next, batch[T]{done: s.unreadable.telling(told, nil)})
	return len(next.indexes) - 1
}

// publish makes the state in next the newest one, and queues the batch. The
// caller holds writing, and calls delivery.run after releasing it.
func (s *store[T]) publish(next *state[T], b batch[T]) {
	s.delivery.mu.Lock()
	defer s.delivery.mu.Unlock()
	s.latest.Store(next)
	s.delivery.enqueue(b)
}

// publishList publishes a state in which items, in sorted order, are the whole
// content of the namespaces that isListed selects. rv is the list's
// resourceVersion if the list may be older than the known state of an
// unreadable object. For example, it is set for a list of added shards. For
// other lists of a reflector it is empty. The caller holds writing.
func (s *store[T]) publishList(
	isListed func(string) bool, items []*tree.Item[T], occasion versions.Occasion, rv string, done func(),
) {
	next, changes, refused := s.list(isListed, items, occasion, rv)
	told := s.removeReadable(isListed, refused, occasion, rv)
	s.publishChanges(next, changes, occasion, s.unreadable.telling(told, done))
}

// publishChanges publishes the state after changes. The caller holds writing.
func (s *store[T]) publishChanges(next *state[T], changes []tree.Change[T], occasion versions.Occasion, done func()) {
	events := make([]Event[T], 0, len(changes))
	for _, c := range changes {
		events = eventsOf(c, events)
	}
	if occasion == versions.FirstList {
		for n := range events {
			events[n].Initial = events[n].Type == Added
		}
	}
	s.publish(next, batch[T]{events: events, done: done})
}

// list puts items, in sorted order, into the table as the whole content of the
// namespaces that isListed selects. It returns the new state, the changes, and
// the refused items. rv is as for publishList. The caller holds writing.
func (s *store[T]) list(
	isListed func(string) bool, items []*tree.Item[T], occasion versions.Occasion, rv string,
) (*state[T], []tree.Change[T], []refusedItem[T]) {
	items, refused := s.readable(items, occasion, rv)
	for {
		next := *s.latest.Load()
		content, changes := next.replaced(isListed, items, occasion)
		refusal := s.caught(types.NamespacedName{}, func() { next.reindex(changes) })
		if refusal == nil {
			for _, r := range refused { // before the table loses their cached states
				s.refuse(r)
			}
			next.root, next.count = tree.Build(content), len(content)
			s.detector.Update(changes...) // before readers can modify the objects
			s.table.Fill(content)
			return &next, changes, refused
		}
		remaining, panicking := s.withoutPanics(items, changes)
		if len(panicking) == 0 {
			panic(refusal.Err) // the panic does not depend on an object
		}
		items, refused = remaining, append(refused, panicking...)
	}
}

// checkMutations returns the joined MutationErrors of the objects of keys that
// were modified in place. Without keys it checks all objects.
func (s *store[T]) checkMutations(keys ...types.NamespacedName) error {
	if s.detector == nil {
		return nil
	}
	if len(keys) == 0 {
		return errors.Join(s.modified(s.detector.Check(s.latest.Load().root.AppendItems(nil)...))...)
	}
	var items []*tree.Item[T]
	for _, key := range keys {
		if item := s.table.Get(key); item != nil {
			items = append(items, item)
		}
	}
	return errors.Join(s.modified(s.detector.Check(items...))...)
}

// finishMutations checks all objects. It logs and returns the mutations that
// were found since it was last called, as far as the detector has kept them.
func (s *store[T]) finishMutations(ctx context.Context) error {
	if s.detector == nil {
		return nil
	}
	s.detector.Check(s.latest.Load().root.AppendItems(nil)...)
	errs := s.modified(s.detector.Found())
	for _, err := range errs {
		klog.FromContext(ctx).Error(err, "cached object was modified in place", "informer", s.identity.Name())
	}
	return errors.Join(errs...)
}

// modified returns a MutationError for each of the mutations.
func (s *store[T]) modified(mutated []mutations.Mutation) (errs []error) {
	for _, m := range mutated {
		errs = append(errs, &MutationError{Kind: s.identity.Kind(), Key: m.Key, Fields: m.Fields})
	}
	return errs
}

// changeTo returns the change that replaces the cached object with item. The
// caller holds writing.
func (s *store[T]) changeTo(item *tree.Item[T]) tree.Change[T] {
	return tree.Change[T]{Old: s.table.Get(item.Key), New: item}
}

// matters reports whether the objects of a change differ. It compares their
// contents only if there is no resourceVersion, as with fakes.
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

// isBack reports whether a change would replace a state with an earlier one.
func isBack[T Object](c tree.Change[T]) bool {
	return c.Old != nil && versions.Older(c.New.Object.GetResourceVersion(), c.Old.Object.GetResourceVersion())
}
