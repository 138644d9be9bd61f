package partial

import (
	"errors"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/keyspace"
)

// ErrGivenUp is the error of an additional list whose shards were removed in
// the meantime.
var ErrGivenUp = errors.New("the shards were removed before their list was complete")

// ErrOtherHistory is the error of an additional list if the server was restored
// after the list began.
var ErrOtherHistory = errors.New("the server was restored after the list began")

// Cover is the set of shards whose objects a cache keeps, and records which of
// them are complete. The zero value keeps no shards. A list of shards that were
// added later is an additional list: it is sent alongside the watch.
//
// Wanted, Complete and IsLate may be called at any time. The lock under which
// the cache changes guards all other calls.
type Cover struct {
	wanted, complete atomic.Pointer[keyspace.Set]
	isLate           atomic.Bool

	// filling contains the shards that are being listed alongside the watch, or
	// is nil.
	filling *Filling
	// additional contains the additional lists that the watch has not caught up
	// with.
	additional []listing
	// asked contains the shards that the list of the watch contains. It does
	// not contain shards that were removed after the list began, even if they
	// were added again.
	asked keyspace.Set
}

// listing is a list of some shards at a resourceVersion.
type listing struct {
	set keyspace.Set
	rv  string
}

// Filling describes shards that are being listed alongside the watch.
type Filling struct {
	set keyspace.Set
	// deleted contains the resourceVersions of deletions that the watch has
	// delivered in the meantime. The additional list may be older, and contain
	// the deleted objects.
	deleted map[types.NamespacedName]string
	// lists contains the lists that the watch itself has received in the
	// meantime.
	lists []listing
}

func load(shards *atomic.Pointer[keyspace.Set]) keyspace.Set {
	if set := shards.Load(); set != nil {
		return *set
	}
	return nil
}

// Wanted returns the shards whose objects the cache keeps. The watch must
// deliver the events of their objects.
func (c *Cover) Wanted() keyspace.Set { return load(&c.wanted) }

// Complete returns the part of Wanted that has been listed.
func (c *Cover) Complete() keyspace.Set { return load(&c.complete) }

// IsLate reports whether the watch may still deliver states that are older than
// an additional list.
func (c *Cover) IsLate() bool { return c.isLate.Load() }

// common returns the intersection of two sets.
func common(a, b keyspace.Set) keyspace.Set { return a.Minus(a.Minus(b)) }

// Change replaces the set of shards that the cache keeps.
func (c *Cover) Change(set keyspace.Set) {
	complete := common(c.Complete(), set)
	c.wanted.Store(&set)
	c.complete.Store(&complete)
	c.asked = common(c.asked, set)
	for n := range c.additional {
		c.additional[n].set = common(c.additional[n].set, set)
	}
	if c.filling != nil && !set.Includes(c.filling.set) {
		c.filling = nil
	}
}

// Ask records that the watch is requesting a list, and returns the shards that
// the list must contain.
func (c *Cover) Ask() keyspace.Set {
	c.asked = c.Wanted()
	return c.asked
}

// Asked returns the shards of the last Ask, except for shards that were removed
// since then.
func (c *Cover) Asked() keyspace.Set { return c.asked }

// Fill records that an additional list of the shards in set has begun. It
// replaces the list in progress, if there is one.
func (c *Cover) Fill(set keyspace.Set) {
	c.filling = &Filling{set: set, deleted: map[types.NamespacedName]string{}}
}

// Filling returns the additional list in progress, or nil.
func (c *Cover) Filling() *Filling { return c.filling }

// Left returns the shards that must be taken from an additional list at rv that
// was begun for f. It leaves out the shards that the watch itself has meanwhile
// listed, unless that list is older than rv.
//
// Left returns ErrGivenUp if no list of set is in progress any more, and
// ErrOtherHistory if f is not the list in progress.
func (c *Cover) Left(f *Filling, set keyspace.Set, rv string) (left keyspace.Set, err error) {
	switch {
	// a shard of set was removed, or the cache kept no shards for a while
	case c.filling == nil || !c.filling.set.Includes(set):
		return nil, ErrGivenUp
	case c.filling != f:
		return nil, ErrOtherHistory
	}
	left = f.set
	for _, list := range f.lists {
		if !versions.Older(list.rv, rv) {
			left = left.Minus(list.set)
		}
	}
	return left, nil
}

// HasDeleted reports whether the watch has delivered a deletion of the object
// of key, and the deletion is newer than rv.
func (f *Filling) HasDeleted(key types.NamespacedName, rv string) bool {
	deleted, ok := f.deleted[key]
	return ok && versions.Older(rv, deleted)
}

// Filled records that the objects of the shards in set are stored. They were
// listed alongside the watch, at the resourceVersion rv. Until the watch has
// reached rv, its events about them may be older than what is stored.
func (c *Cover) Filled(set keyspace.Set, rv string) {
	c.addComplete(c.filling.set)
	c.filling = nil
	c.additional = append(c.additional, listing{set, rv})
	c.isLate.Store(true)
}

// Restore forgets additional lists, because the server has lost the states that
// they contained. A list in progress begins again.
func (c *Cover) Restore() {
	c.additional = nil
	c.isLate.Store(false)
	if c.filling != nil {
		c.Fill(c.filling.set)
	}
}

// CaughtUp records that the watch has reached rv.
func (c *Cover) CaughtUp(rv string) {
	c.additional = slices.DeleteFunc(c.additional, func(list listing) bool { return !versions.Older(rv, list.rv) })
	c.isLate.Store(len(c.additional) > 0)
}

// Newest returns the newest resourceVersion of the additional lists that the
// watch has not caught up with, or the empty string.
func (c *Cover) Newest() (rv string) {
	for _, list := range c.additional {
		if versions.Older(rv, list.rv) {
			rv = list.rv
		}
	}
	return rv
}

// IsOutdated reports whether the state of an object at rv is older than an
// additional list of a shard that contains the object. It returns false for
// objects without a namespace, which are never taken from additional lists.
func (c *Cover) IsOutdated(key types.NamespacedName, rv string) bool {
	return key.Namespace != "" && slices.ContainsFunc(c.additional, func(list listing) bool {
		return versions.Older(rv, list.rv) && keyspace.Has(list.set, key.Namespace)
	})
}

func (c *Cover) addComplete(set keyspace.Set) {
	complete := common(keyspace.Union(c.Complete(), set), c.Wanted())
	c.complete.Store(&complete)
}

// Listed records that the list for which Ask was last called has been received.
// rv is the resourceVersion of the list.
func (c *Cover) Listed(rv string) {
	c.addComplete(c.asked)
	if c.filling != nil {
		c.filling.lists = append(c.filling.lists, listing{c.asked, rv})
	}
}

// Deleted records a deletion that the watch has delivered, for the additional
// list in progress. It has no effect if that list does not contain the shard of
// the object.
func (c *Cover) Deleted(key types.NamespacedName, rv string) {
	if c.filling != nil && keyspace.Has(c.filling.set, key.Namespace) {
		c.filling.deleted[key] = rv
	}
}
