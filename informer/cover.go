package informer

import (
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/keyspace"
)

// cover is the shards whose objects a store keeps, and how far they are complete. Its
// zero value covers everything.
type cover struct {
	// set is the shards that the watch is to bring and the store takes; nil for all.
	set atomic.Pointer[keyspace.Set]
	// complete is the part of set that has been listed.
	complete atomic.Pointer[keyspace.Set]
	// late says that the watch may bring states before those that a fill has stored.
	late atomic.Bool

	// store.writing guards the fields below, and changes of all above.
	filling *filling
	// beside are the lists beside the watch that it has not caught up with.
	beside []listing
	// asked is the part of set that the list of the watch under way brings, or the
	// last one has brought: not what was removed since it began, and came back.
	asked keyspace.Set
}

// listing is a list of some shards at a resourceVersion.
type listing struct {
	set keyspace.Set
	rv  string
}

// filling is a part of the set that is being listed beside the watch.
type filling struct {
	set keyspace.Set
	// deleted has the resourceVersion of deletions that the watch has brought: the
	// list may be older.
	deleted map[types.NamespacedName]string
	// lists are those of the watch itself meanwhile.
	lists []listing
}

func (c *cover) partial() bool { return c.set.Load() != nil }

// admits reports whether the objects of a namespace are kept.
func (c *cover) admits(namespace string) bool { return has(&c.set, namespace) }

// keeps is admits for a namespace as package wire reads it.
func (c *cover) keeps(namespace []byte) bool { return has(&c.set, namespace) }

// has reports whether all objects of a namespace have been listed.
func (c *cover) has(namespace string) bool { return has(&c.complete, namespace) }

func has[S string | []byte](in *atomic.Pointer[keyspace.Set], namespace S) bool {
	set := in.Load()
	return set == nil || keyspace.Has(*set, namespace)
}

// wanted returns the shards that the watch is to bring.
func (c *cover) wanted() keyspace.Set {
	if set := c.set.Load(); set != nil {
		return *set
	}
	return keyspace.Whole()
}

// common returns the intersection.
func common(a, b keyspace.Set) keyspace.Set { return a.Minus(a.Minus(b)) }

// missing returns the part of set that has not been listed.
func (c *cover) missing(set keyspace.Set) keyspace.Set {
	if complete := c.complete.Load(); complete != nil {
		return set.Minus(*complete)
	}
	return nil
}

// change makes set the shards to keep. The caller holds store.writing.
func (c *cover) change(set keyspace.Set) {
	var complete keyspace.Set
	if before := c.complete.Load(); before != nil {
		complete = common(*before, set)
	}
	c.set.Store(&set)
	c.complete.Store(&complete)
	c.asked = common(c.asked, set)
	for n := range c.beside {
		c.beside[n].set = common(c.beside[n].set, set)
	}
	if c.filling != nil && !set.Includes(c.filling.set) {
		c.filling = nil
	}
}

// fill begins to list a part beside the watch. The caller holds store.writing.
func (c *cover) fill(set keyspace.Set) {
	c.filling = &filling{set: set, deleted: map[types.NamespacedName]string{}}
}

// left returns the shards to take from a list at rv: those that a list of the
// watch has not brought at least as new. The caller holds store.writing.
func (f *filling) left(rv string) keyspace.Set {
	left := f.set
	for _, list := range f.lists {
		if !versions.Older(list.rv, rv) {
			left = left.Minus(list.set)
		}
	}
	return left
}

// filled ends that: states that the watch brings up to rv may be older than the stored
// ones of set. The caller holds store.writing.
func (c *cover) filled(set keyspace.Set, rv string) {
	addComplete(c, c.filling.set)
	c.filling = nil
	c.beside = append(c.beside, listing{set, rv})
	c.late.Store(true)
}

// restored forgets lists beside the watch: the server has lost the states that they
// brought. One that is under way begins again. The caller holds store.writing.
func (c *cover) restored() {
	c.beside = nil
	c.late.Store(false)
	if c.filling != nil {
		c.fill(c.filling.set)
	}
}

// caughtUp notes that the watch has come to rv. The caller holds store.writing.
func (c *cover) caughtUp(rv string) {
	c.beside = slices.DeleteFunc(c.beside, func(list listing) bool { return !versions.Older(rv, list.rv) })
	c.late.Store(len(c.beside) > 0)
}

// outdated reports whether a state of an object at rv is older than a list beside the
// watch that would have had it. The caller holds store.writing.
func (c *cover) outdated(key types.NamespacedName, rv string) bool {
	return key.Namespace != "" && slices.ContainsFunc(c.beside, func(list listing) bool {
		return versions.Older(rv, list.rv) && keyspace.Has(list.set, key.Namespace)
	})
}

// addComplete notes that a part of the set has been listed.
func addComplete(c *cover, set keyspace.Set) {
	complete := common(keyspace.Union(*c.complete.Load(), set), c.wanted())
	c.complete.Store(&complete)
}

// listed notes that a list of the watch has brought its shards, at rv. The
// caller holds store.writing.
func (c *cover) listed(rv string) {
	addComplete(c, c.asked)
	if c.filling != nil {
		c.filling.lists = append(c.filling.lists, listing{c.asked, rv})
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
	c.filling, c.beside, c.asked = nil, nil, nil
}
