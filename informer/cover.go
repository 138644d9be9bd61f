package informer

import (
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/keyspace"
)

// cover is the shards whose objects a store keeps, and how far they are complete. Its
// zero value covers everything.
type cover struct {
	// set is what the watch is to bring and the store takes; nil for everything.
	set atomic.Pointer[keyspace.Set]
	// complete is the part of set that has been listed.
	complete atomic.Pointer[keyspace.Set]
	// late says that the watch may bring states before those that a fill has stored.
	late atomic.Bool

	// store.writing guards what follows, and changes of all above.
	filling *filling
	// until is the resourceVersion with which late ends.
	until string
}

// filling is a part of the set that is being listed beside the watch.
type filling struct {
	set keyspace.Set
	// deleted has the resourceVersion of deletions that the watch has brought: the
	// list may be older.
	deleted map[types.NamespacedName]string
	// done says that a list of the watch itself has brought all of it.
	done bool
}

func (c *cover) partial() bool { return c.set.Load() != nil }

// isLate reports whether events have to be compared with the cache. The caller holds
// store.writing.
func (c *cover) isLate() bool { return c.late.Load() }

// admits reports whether the objects of a namespace are kept.
func (c *cover) admits(namespace string) bool {
	set := c.set.Load()
	return set == nil || keyspace.Has(*set, namespace)
}

// keeps is admits for what package wire reads.
func (c *cover) keeps(namespace []byte) bool {
	set := c.set.Load()
	return set == nil || keyspace.Has(*set, namespace)
}

// has reports whether all objects of a namespace have been listed.
func (c *cover) has(namespace string) bool {
	complete := c.complete.Load()
	return complete == nil || keyspace.Has(*complete, namespace)
}

// wanted returns what the watch is to bring.
func (c *cover) wanted() keyspace.Set {
	if set := c.set.Load(); set != nil {
		return *set
	}
	return keyspace.Whole()
}

// missing returns what of set has not been listed.
func (c *cover) missing(set keyspace.Set) keyspace.Set {
	if complete := c.complete.Load(); complete != nil {
		return set.Minus(*complete)
	}
	return nil
}

// change makes set what is kept. The caller holds store.writing.
func (c *cover) change(set keyspace.Set) {
	var complete keyspace.Set
	if before := c.complete.Load(); before != nil {
		complete = before.Minus(before.Minus(set))
	}
	c.set.Store(&set)
	c.complete.Store(&complete)
	if c.filling != nil && !set.Includes(c.filling.set) {
		c.filling = nil
	}
}

// fill begins to list a part beside the watch. The caller holds store.writing.
func (c *cover) fill(set keyspace.Set) {
	c.filling = &filling{set: set, deleted: map[types.NamespacedName]string{}}
}

// filled ends that: what the watch brings up to rv may be older than what is stored.
// The caller holds store.writing.
func (c *cover) filled(rv string) {
	addComplete(c, c.filling.set)
	c.filling = nil
	if older(c.until, rv) {
		c.until = rv
	}
	c.late.Store(true)
}

// addComplete notes that a part of the set has been listed.
func addComplete(c *cover, set keyspace.Set) {
	complete := keyspace.Union(*c.complete.Load(), set)
	complete = complete.Minus(complete.Minus(c.wanted()))
	c.complete.Store(&complete)
}

// listed notes that a list of the watch has brought set. The caller holds
// store.writing.
func (c *cover) listed(set keyspace.Set) {
	addComplete(c, set)
	if c.filling != nil && set.Includes(c.filling.set) {
		c.filling.done = true
	}
}

// deleted notes a deletion that the watch has brought. The caller holds store.writing.
func (c *cover) deleted(key types.NamespacedName, rv string) {
	if c.filling != nil && keyspace.Has(c.filling.set, key.Namespace) {
		c.filling.deleted[key] = rv
	}
}

// divide makes a store without objects keep those of shards: of none as yet.
func (c *cover) divide() {
	c.set.Store(&keyspace.Set{})
	c.complete.Store(&keyspace.Set{})
}

// whole ends the division: everything is kept. The caller holds store.writing.
func (c *cover) whole() {
	c.set.Store(nil)
	c.complete.Store(nil)
	c.late.Store(false)
	c.filling, c.until = nil, ""
}

// fill stores what a list beside the watch has brought at rv, as far as the cache is
// not newer, delivers it, and reports whether the part is still wanted.
func (s *store[T]) fill(set keyspace.Set, items []*item[T], rv string) bool {
	sortItems(items)
	s.writing.Lock()
	f := s.shards.filling
	if f == nil || !f.set.Includes(set) { // it was removed, or all that was before
		s.writing.Unlock()
		return false
	}
	if !f.done {
		newest := items[:0]
		for _, it := range items {
			_, again := f.deleted[it.key]
			deleted := again && older(it.object.GetResourceVersion(), f.deleted[it.key])
			if c := (change[T]{s.table.get(it.key), it}); !deleted && !c.isBack() && f.admits(it.key) {
				newest = append(newest, it)
			}
		}
		s.publishList(func(of string) bool { return keyspace.Has(f.set, of) }, s.withCached(f.set, newest), false, nil)
	}
	s.shards.filled(rv)
	s.writing.Unlock()
	s.delivery.run()
	return true
}

// admits reports whether key is of the part that is filled: a server that does not
// know shards lists more.
func (f *filling) admits(key types.NamespacedName) bool {
	return key.Namespace != "" && keyspace.Has(f.set, key.Namespace)
}

// withCached returns items, and the cached ones of set that are not among them, sorted.
// The caller holds writing.
func (s *store[T]) withCached(set keyspace.Set, items []*item[T]) []*item[T] {
	listed := make(map[types.NamespacedName]bool, len(items))
	for _, it := range items {
		listed[it.key] = true
	}
	for _, it := range s.latest.Load().root.appendItems(nil) {
		if keyspace.Has(set, it.key.Namespace) && !listed[it.key] {
			items = append(items, it)
		}
	}
	sortItems(items)
	return items
}

// listing is what a list of the watch was: of which shards, and at which
// resourceVersion.
type listing struct {
	set keyspace.Set
	rv  string
}

// replaceShards makes a list of the watch the whole content of its shards, delivers
// what that changes, and then calls done.
func (s *store[T]) replaceShards(list listing, items []*item[T], initial bool, done func()) {
	for _, it := range items {
		s.identity.learnKind(it.object)
	}
	s.writing.Lock()
	within := func(of string) bool { return keyspace.Has(list.set, of) && s.shards.admits(of) }
	items = slices.DeleteFunc(items, func(it *item[T]) bool { return !within(it.key.Namespace) })
	items = s.newest(items, within, list.rv)
	sortItems(items)
	s.publishList(within, items, initial, done)
	s.shards.listed(list.set)
	s.writing.Unlock()
	s.delivery.run()
}

// newest returns items, which were listed at rv, with the cached ones instead that are
// newer: a list beside the watch may have been. The caller holds writing.
func (s *store[T]) newest(items []*item[T], within func(string) bool, rv string) []*item[T] {
	if !s.shards.isLate() {
		return items
	}
	listed := make(map[types.NamespacedName]bool, len(items))
	for n, it := range items {
		listed[it.key] = true
		if c := (change[T]{s.table.get(it.key), it}); c.isBack() {
			items[n] = c.old
		}
	}
	for _, it := range s.latest.Load().root.appendItems(nil) {
		if within(it.key.Namespace) && !listed[it.key] && older(rv, it.object.GetResourceVersion()) {
			items = append(items, it)
		}
	}
	return items
}

// caughtUp notes that the watch has come to rv.
func (s *store[T]) caughtUp(rv string) {
	if !s.shards.late.Load() {
		return
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if !older(rv, s.shards.until) {
		s.shards.late.Store(false)
		s.shards.until = ""
	}
}
