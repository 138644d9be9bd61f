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
var ErrGivenUp = errors.New("the shards were removed meanwhile")

// ErrOtherHistory is the error of an additional list if the server was restored
// after the list began.
var ErrOtherHistory = errors.New("the list is of a state that the server has lost")

// Cover is the set of shards whose objects a cache keeps, and records which of
// them are complete. The zero value keeps no shards. A list of shards that were
// added later is an additional list: it is sent beside the watch.
//
// Wanted, Complete and IsLate may be called at any time. The lock under which
// the cache changes guards all other calls.
type Cover struct {
	wanted, complete atomic.Pointer[keyspace.Set]
	late             atomic.Bool

	// filling contains the shards that are being listed beside the watch, or is
	// nil.
	filling *Filling
	// beside are the additional lists that the watch has not caught up with.
	beside []listing
	// asked contains the shards that the list of the watch brings. It does not
	// contain shards that were removed after the list began, even if they were
	// added again.
	asked keyspace.Set
}

// listing is a list of some shards at a resourceVersion.
type listing struct {
	set keyspace.Set
	rv  string
}

// Filling describes shards that are being listed beside the watch.
type Filling struct {
	set keyspace.Set
	// deleted contains the resourceVersions of deletions that the watch has
	// brought in the meantime. The list may be older.
	deleted map[types.NamespacedName]string
	// lists are the watch's own lists in the meantime.
	lists []listing
}

func load(from *atomic.Pointer[keyspace.Set]) keyspace.Set {
	if set := from.Load(); set != nil {
		return *set
	}
	return nil
}

// Wanted returns the shards that the cache keeps, and that the watch must
// bring.
func (c *Cover) Wanted() keyspace.Set { return load(&c.wanted) }

// Complete returns the part of Wanted that has been listed.
func (c *Cover) Complete() keyspace.Set { return load(&c.complete) }

// IsLate reports whether the watch may still bring states that are older than
// an additional list.
func (c *Cover) IsLate() bool { return c.late.Load() }

// common returns the intersection of two sets.
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

// Ask begins a list of the watch, and returns its shards.
func (c *Cover) Ask() keyspace.Set {
	c.asked = c.Wanted()
	return c.asked
}

// Asked returns the shards of the last Ask that were kept since then.
func (c *Cover) Asked() keyspace.Set { return c.asked }

// Fill begins an additional list of set.
func (c *Cover) Fill(set keyspace.Set) {
	c.filling = &Filling{set: set, deleted: map[types.NamespacedName]string{}}
}

// Filling returns the additional list in progress, or nil.
func (c *Cover) Filling() *Filling { return c.filling }

// Left returns the shards that must be taken from an additional list, which is
// at rv and was begun for f. It leaves out shards of which a list of the watch
// has brought newer states.
//
// Errors: ErrGivenUp if set is no longer being listed, ErrOtherHistory if f is
// not the list in progress.
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

// Filled ends an additional list. States that the watch brings up to rv may be
// older than the stored ones of set.
func (c *Cover) Filled(set keyspace.Set, rv string) {
	c.addComplete(c.filling.set)
	c.filling = nil
	c.beside = append(c.beside, listing{set, rv})
	c.late.Store(true)
}

// Restore forgets additional lists, because the server has lost the states that
// they brought. A list in progress begins again.
func (c *Cover) Restore() {
	c.beside = nil
	c.late.Store(false)
	if c.filling != nil {
		c.Fill(c.filling.set)
	}
}

// CaughtUp records that the watch has reached rv.
func (c *Cover) CaughtUp(rv string) {
	c.beside = slices.DeleteFunc(c.beside, func(list listing) bool { return !versions.Older(rv, list.rv) })
	c.late.Store(len(c.beside) > 0)
}

// Newest returns the newest resourceVersion of the additional lists that the
// watch has not caught up with, or the empty string.
func (c *Cover) Newest() (rv string) {
	for _, list := range c.beside {
		if versions.Older(rv, list.rv) {
			rv = list.rv
		}
	}
	return rv
}

// IsOutdated reports whether an additional list would have contained the object
// at rv, and is newer.
func (c *Cover) IsOutdated(key types.NamespacedName, rv string) bool {
	return key.Namespace != "" && slices.ContainsFunc(c.beside, func(list listing) bool {
		return versions.Older(rv, list.rv) && keyspace.Has(list.set, key.Namespace)
	})
}

func (c *Cover) addComplete(set keyspace.Set) {
	complete := common(keyspace.Union(c.Complete(), set), c.Wanted())
	c.complete.Store(&complete)
}

// Listed records that a list of the watch has brought its shards, at rv.
func (c *Cover) Listed(rv string) {
	c.addComplete(c.asked)
	if c.filling != nil {
		c.filling.lists = append(c.filling.lists, listing{c.asked, rv})
	}
}

// Deleted records a deletion that the watch has brought.
func (c *Cover) Deleted(key types.NamespacedName, rv string) {
	if c.filling != nil && keyspace.Has(c.filling.set, key.Namespace) {
		c.filling.deleted[key] = rv
	}
}
