package partial

import (
	"errors"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/keyspace"
)

// ErrGivenUp is why a list beside the watch is not stored: its shards were removed.
var ErrGivenUp = errors.New("the shards were removed meanwhile")

// ErrOtherHistory is why a list beside the watch is not stored: the server was
// restored since it was begun.
var ErrOtherHistory = errors.New("the list is of a state that the server has lost")

// Cover is the shards whose objects a cache keeps, and how far they are
// complete. Its zero value keeps nothing.
//
// Wanted, Complete and IsLate may be called at any time. The lock under which
// the cache changes guards all other calls.
type Cover struct {
	wanted, complete atomic.Pointer[keyspace.Set]
	late             atomic.Bool

	// filling is the part that is being listed beside the watch; nil if none is.
	filling *Filling
	// beside are the lists beside the watch that it has not caught up with.
	beside []listing
	// asked is the part of wanted that the list of the watch under way brings,
	// or the last one has brought: not what was removed since it began, and
	// came back.
	asked keyspace.Set
}

// listing is a list of some shards at a resourceVersion.
type listing struct {
	set keyspace.Set
	rv  string
}

// Filling is a part of the set that is being listed beside the watch.
type Filling struct {
	set keyspace.Set
	// deleted has the resourceVersion of deletions that the watch has brought: the
	// list may be older.
	deleted map[types.NamespacedName]string
	// lists are those of the watch itself meanwhile.
	lists []listing
}

func load(from *atomic.Pointer[keyspace.Set]) keyspace.Set {
	if set := from.Load(); set != nil {
		return *set
	}
	return nil
}

// Wanted returns the shards that the watch is to bring and the cache takes.
func (c *Cover) Wanted() keyspace.Set { return load(&c.wanted) }

// Complete returns the part of Wanted that has been listed.
func (c *Cover) Complete() keyspace.Set { return load(&c.complete) }

// IsLate reports whether the watch may bring states before those that a list
// beside it has brought.
func (c *Cover) IsLate() bool { return c.late.Load() }

// common returns the intersection.
func common(a, b keyspace.Set) keyspace.Set { return a.Minus(a.Minus(b)) }

// Change makes set the shards to keep.
func (c *Cover) Change(set keyspace.Set) {
	complete := common(c.Complete(), set)
	c.wanted.Store(&set)
	c.complete.Store(&complete)
	c.asked = common(c.asked, set)
	for n := range c.beside {
		c.beside[n].set = common(c.beside[n].set, set)
	}
	if c.filling != nil && !set.Includes(c.filling.set) {
		c.filling = nil
	}
}

// Ask begins a list of the watch, and returns the shards that it is to bring.
func (c *Cover) Ask() keyspace.Set {
	c.asked = c.Wanted()
	return c.asked
}

// Asked returns those shards, as far as they were kept all the time.
func (c *Cover) Asked() keyspace.Set { return c.asked }

// Fill begins to list a part beside the watch.
func (c *Cover) Fill(set keyspace.Set) {
	c.filling = &Filling{set: set, deleted: map[types.NamespacedName]string{}}
}

// Filling returns the part that is being listed beside the watch, nil if none is.
func (c *Cover) Filling() *Filling { return c.filling }

// Left returns the shards to take from a list beside the watch, at rv, that was
// begun for f: those that a list of the watch has not brought at least as new.
//
// Errors: ErrGivenUp if set is no longer listed, ErrOtherHistory if f is not
// what is.
func (c *Cover) Left(f *Filling, set keyspace.Set, rv string) (left keyspace.Set, err error) {
	switch {
	case c.filling == nil || !c.filling.set.Includes(set): // it was removed, or all that was before
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

// HasDeleted reports whether the watch has brought the deletion of a state at rv.
func (f *Filling) HasDeleted(key types.NamespacedName, rv string) bool {
	deleted, ok := f.deleted[key]
	return ok && versions.Older(rv, deleted)
}

// Filled ends that: states that the watch brings up to rv may be older than the
// stored ones of set.
func (c *Cover) Filled(set keyspace.Set, rv string) {
	c.addComplete(c.filling.set)
	c.filling = nil
	c.beside = append(c.beside, listing{set, rv})
	c.late.Store(true)
}

// Restore forgets lists beside the watch: the server has lost the states that they
// brought. One that is under way begins again.
func (c *Cover) Restore() {
	c.beside = nil
	c.late.Store(false)
	if c.filling != nil {
		c.Fill(c.filling.set)
	}
}

// CaughtUp notes that the watch has come to rv.
func (c *Cover) CaughtUp(rv string) {
	c.beside = slices.DeleteFunc(c.beside, func(list listing) bool { return !versions.Older(rv, list.rv) })
	c.late.Store(len(c.beside) > 0)
}

// Newest returns the newest resourceVersion of the lists that the watch has not
// caught up with, empty if there are none.
func (c *Cover) Newest() (rv string) {
	for _, list := range c.beside {
		if versions.Older(rv, list.rv) {
			rv = list.rv
		}
	}
	return rv
}

// IsOutdated reports whether a state of an object at rv is older than a list
// beside the watch that would have had it.
func (c *Cover) IsOutdated(key types.NamespacedName, rv string) bool {
	return key.Namespace != "" && slices.ContainsFunc(c.beside, func(list listing) bool {
		return versions.Older(rv, list.rv) && keyspace.Has(list.set, key.Namespace)
	})
}

func (c *Cover) addComplete(set keyspace.Set) {
	complete := common(keyspace.Union(c.Complete(), set), c.Wanted())
	c.complete.Store(&complete)
}

// Listed notes that a list of the watch has brought its shards, at rv.
func (c *Cover) Listed(rv string) {
	c.addComplete(c.asked)
	if c.filling != nil {
		c.filling.lists = append(c.filling.lists, listing{c.asked, rv})
	}
}

// Deleted notes a deletion that the watch has brought.
func (c *Cover) Deleted(key types.NamespacedName, rv string) {
	if c.filling != nil && keyspace.Has(c.filling.set, key.Namespace) {
		c.filling.deleted[key] = rv
	}
}
