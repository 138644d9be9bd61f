package informer

import (
	"context"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"github.com/homeostat/homeostat/informer/internal/itemwise"
	"github.com/homeostat/homeostat/informer/internal/partial"
	"github.com/homeostat/homeostat/informer/internal/requests"
	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/keyspace"
	"github.com/homeostat/homeostat/internal/wire"
)

// divided is the cache of a session that keeps only the objects of the shards
// in holds. Its only watch runs while there are holds. Only the code for shards
// refers to this type. So it is not linked into a program that never calls
// RunShards.
type divided[T Object] struct {
	feed  *feed[T]
	store *store[T]
	// source is the only source of the feed.
	source source
	cover  partial.Cover // store.writing guards its changes
	// side is sideServer or sideClient, depending on which of them leaves out
	// the objects of other shards. It is nil while this is unknown.
	side atomic.Pointer[string]
	// listing contains the shards of the list that the watch is requesting.
	// Only the goroutine of the watch uses it.
	listing keyspace.Set

	// feed.mu guards the fields below.

	holds     []*hold            // the shards that callers of AddShards need
	lastWatch *reflectorStore[T] // the watch that was cancelled when the last shard was removed
}

func newDivided[T Object](f *feed[T]) *divided[T] {
	return &divided[T]{feed: f, store: f.store, source: f.sources[0]}
}

// divisible reports whether the feed can keep only the objects of some shards.
func (f *feed[T]) divisible() bool {
	if f.options.Whole || f.connect != nil {
		return false
	}
	source := f.sources[0]
	return source.follows == nil && !source.fake && source.reach.Namespace == "" &&
		scopeOf[T](f.options, source.scope, false) != meta.RESTScopeNameRoot
}

// Put implements [partial.Cache].
func (d *divided[T]) Put(item *tree.Item[T]) {
	s := d.store
	s.identity.learnKind(item.Object)
	s.writing.Lock()
	defer s.delivery.run()
	defer s.writing.Unlock() // also if the function of an index ends the goroutine
	c := s.changeTo(item)
	if keyspace.Has(d.cover.Wanted(), item.Key.Namespace) && (!d.cover.IsLate() || !d.isPast(c)) {
		s.putLocked(c)
	}
}

// Remove implements [partial.Cache].
func (d *divided[T]) Remove(last T) {
	s, key, rv := d.store, bound.KeyOf(last), last.GetResourceVersion()
	s.writing.Lock()
	defer s.delivery.run()
	defer s.writing.Unlock()
	d.cover.Deleted(key, rv)
	old := s.table.Get(key)
	if d.cover.IsLate() &&
		(old != nil && versions.Older(rv, old.Object.GetResourceVersion()) || s.unreadable.isNewer(key, rv)) {
		return
	}
	s.removeLocked(key, last)
}

// isPast reports whether a change would restore a state that is older than an
// additional list. Such a change contains an earlier state of an object, or an
// object that was deleted before the list. store.writing must be held.
func (d *divided[T]) isPast(c tree.Change[T]) bool {
	return d.isOutdated(c) || d.store.unreadable.isNewer(c.New.Key, c.New.Object.GetResourceVersion())
}

// isOutdated is like isPast, for an item of a list. Unlike isPast, it returns
// false for an item whose newer state is unreadable, because such an object was
// not deleted. store.readable replaces such an item with the cached one.
func (d *divided[T]) isOutdated(c tree.Change[T]) bool {
	return isBack(c) || c.Old == nil && d.cover.IsOutdated(c.New.Key, c.New.Object.GetResourceVersion())
}

// Replace implements [partial.Cache].
func (d *divided[T]) Replace(rv string, items []*tree.Item[T], occasion versions.Occasion, done func()) {
	s := d.store
	for _, item := range items {
		s.identity.learnKind(item.Object)
	}
	s.writing.Lock()
	if occasion == versions.RestoredList {
		d.cover.Restore()
	}
	d.cover.CaughtUp(rv)
	asked, wanted := d.cover.Asked(), d.cover.Wanted()
	isListed := func(namespace string) bool { return keyspace.Has(asked, namespace) && keyspace.Has(wanted, namespace) }
	items = slices.DeleteFunc(items, func(item *tree.Item[T]) bool { return !isListed(item.Key.Namespace) })
	upTo := ""
	if d.cover.IsLate() {
		upTo = rv
		items = slices.DeleteFunc(d.newest(items, isListed, rv), func(item *tree.Item[T]) bool {
			return d.isOutdated(s.changeTo(item))
		})
	}
	tree.Sort(items)
	s.publishList(isListed, items, occasion, upTo, nil)
	d.cover.Listed(rv)
	s.writing.Unlock()
	// done is not part of the list's batch: another goroutine may deliver the
	// batch before the shards are complete.
	s.delivery.notifyDelivered(done)
}

// newest returns the items that were listed at rv, together with newer states
// from the cache. Items that are older than the cached ones are replaced, and
// cached objects that were created after rv are added. store.writing must be
// held.
func (d *divided[T]) newest(items []*tree.Item[T], isListed func(string) bool, rv string) []*tree.Item[T] {
	listed := make(map[types.NamespacedName]bool, len(items))
	for n, item := range items {
		listed[item.Key] = true
		if c := d.store.changeTo(item); isBack(c) {
			items[n] = c.Old
		}
	}
	for _, item := range d.store.latest.Load().root.AppendItems(nil) {
		if isListed(item.Key.Namespace) && !listed[item.Key] && versions.Older(rv, item.Object.GetResourceVersion()) {
			items = append(items, item)
		}
	}
	return items
}

// CaughtUp implements [partial.Cache].
func (d *divided[T]) CaughtUp(rv string) {
	if !d.cover.IsLate() {
		return
	}
	d.store.writing.Lock()
	defer d.store.writing.Unlock()
	d.cover.CaughtUp(rv)
}

// Wanted implements [partial.Cache].
func (d *divided[T]) Wanted() keyspace.Set { return d.cover.Wanted() }

// Complete implements [partial.Cache].
func (d *divided[T]) Complete() keyspace.Set { return d.cover.Complete() }

// The sides that leave out the objects of other shards.
const (
	sideClient = "client"
	sideServer = "server"
)

// Side implements [partial.Cache].
func (d *divided[T]) Side() string {
	if side := d.side.Load(); side != nil {
		return *side
	}
	return ""
}

// note records whether the server or the client leaves out the objects of other
// shards. The metadata of list shows this: a server that leaves them out
// returns a list with ShardInfo.
func (d *divided[T]) note(list any) {
	side := sideClient
	// No method of the list is called except GetListMeta: the linker would keep
	// each called method of hundreds of list types.
	if accessor, ok := list.(metav1.ListMetaAccessor); ok {
		if m, ok := accessor.GetListMeta().(*metav1.ListMeta); ok && m.ShardInfo != nil {
			side = sideServer
		}
	}
	d.side.Store(&side)
}

// SelectList implements [partial.Cache].
func (d *divided[T]) SelectList(opts *metav1.ListOptions) {
	if opts.Continue == "" {
		d.listing = d.ask()
	}
	d.Select(opts, d.listing)
}

// ask records that the watch is requesting a list, and returns the shards that
// the list must contain.
func (d *divided[T]) ask() keyspace.Set {
	d.store.writing.Lock()
	defer d.store.writing.Unlock()
	return d.cover.Ask()
}

// SelectWatch implements [partial.Cache].
func (d *divided[T]) SelectWatch(opts *metav1.ListOptions, streaming bool) keyspace.Set {
	set := d.Wanted()
	if streaming {
		set = d.ask()
	}
	d.Select(opts, set)
	return set
}

// Select implements [partial.Cache].
func (d *divided[T]) Select(opts *metav1.ListOptions, set keyspace.Set) {
	if scopeOf[T](d.feed.options, "", false) == "" {
		// The objects may be cluster-scoped. Every replica then has all of
		// them.
		empty := keyspace.Of("")
		set = keyspace.Union(set, keyspace.Set{{First: empty, Last: empty}})
	}
	opts.ShardSelector = set.Selector()
}

// selects applies the selectors of the options to a request, and restricts it
// to set.
func (d *divided[T]) selects(opts *metav1.ListOptions, set keyspace.Set) {
	opts.LabelSelector, opts.FieldSelector = d.feed.options.LabelSelector, d.feed.options.FieldSelector
	d.Select(opts, set)
}

// List implements [partial.Cache].
func (d *divided[T]) List(ctx context.Context, opts metav1.ListOptions) (list runtime.Object, err error) {
	client, ok := d.shardClient()
	if ok {
		list, err = client.Get().UseProtobufAsDefault().Resource(d.source.resource.Resource).
			VersionedParams(&opts, metav1.ParameterCodec).Do(ctx).Get()
		list, err = d.source.genuine(list, err)
	}
	if !ok || itemwise.IsUndecodable(ctx, err) {
		list, err = d.source.list(ctx, opts)
	}
	if err == nil {
		d.note(list)
	}
	return list, err
}

// Watch implements [partial.Cache].
func (d *divided[T]) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if client, ok := d.shardClient(); ok {
		return clientOf[T](client, d.source.resource.Resource, d.source.namespace).Watch(ctx, opts)
	}
	return d.source.watch(ctx, opts)
}

// shardClient returns a client that is like the client of the source, but
// leaves out the objects of other shards. It returns false if no such client
// can be made. For example, the source may not show how it sends its requests.
func (d *divided[T]) shardClient() (client rest.Interface, ok bool) {
	if d.source.rest == nil || d.source.resource.Resource == "" || d.source.itemwise.IsOn() {
		return nil, false
	}
	client, reason := wire.Filter(d.source.rest, d.Keep())
	return client, reason == ""
}

// Keep implements [partial.Cache].
func (d *divided[T]) Keep() wire.Keep {
	return wire.Wanted(func(namespace []byte) bool { return keyspace.Has(d.cover.Wanted(), namespace) })
}

// Join implements [partial.Cache].
func (d *divided[T]) Join(ctx context.Context, whole bool, joined func()) (leave func()) {
	d.keepHeld()
	// A session without shards is synced, unless the new user needs all
	// objects.
	d.feed.updateSynced()
	joined()
	if whole {
		if remove, err := addShards(ctx, d.feed, keyspace.Whole()); err == nil {
			return func() { remove(keyspace.Whole()) }
		}
	}
	return func() {}
}

// End implements [partial.Cache].
func (d *divided[T]) End() {
	d.store.writing.Lock()
	d.store.retainLocked(func(string) bool { return false })
	d.feed.partial.Store(nil)
	d.store.writing.Unlock()
	d.store.delivery.run()
}

// list lists the objects of set alongside the watch r, and stores them.
func (d *divided[T]) list(ctx context.Context, r *reflectorStore[T], set keyspace.Set) error {
	var items []*tree.Item[T]
	epoch := r.epoch()
	rv, filling, seen := "", d.filling(), d.feed.marks.Of(d.source.namespace)
	options := metav1.ListOptions{Limit: d.feed.options.PageSize}
	d.selects(&options, set)
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
		defer cancel()
		list, err := d.List(ctx, options)
		if err != nil {
			return nil, err
		}
		if accessor, err := meta.ListAccessor(list); err == nil { // otherwise the pager returns this error
			rv = accessor.GetResourceVersion()
		}
		if d.source.returnsShared {
			list = list.DeepCopyObject()
		}
		return list, nil
	})
	pages.PageBufferSize = 0
	// Each object gets its own memory. Otherwise an object that stays in the
	// cache would keep its whole page in memory.
	if err := pages.EachListItemWithAlloc(ctx, options, func(obj runtime.Object) error {
		object, ok := obj.(T)
		if !ok || !keyspace.Has(set, object.GetNamespace()) {
			return nil
		}
		items = append(items, itemOf(object))
		return r.transformInPlace(object)
	}); err != nil {
		return err
	}
	r.noteOrder(rv, newestListed(items))
	if r.isOrdered() && versions.Older(rv, seen) {
		r.noteRestored(epoch, seen, rv)
		return requests.ErrRestored
	}
	return d.fill(filling, set, items, rv)
}

// filling returns the additional list that is in progress, or nil.
func (d *divided[T]) filling() *partial.Filling {
	d.store.writing.Lock()
	defer d.store.writing.Unlock()
	return d.cover.Filling()
}

// fill stores the items of an additional list, except where the cache has newer
// states. The list was begun for f, and contains the objects of the shards in
// set at the resourceVersion rv. The caller delivers the changes. fill returns
// the errors of [partial.Cover.Left].
func (d *divided[T]) fill(f *partial.Filling, set keyspace.Set, items []*tree.Item[T], rv string) error {
	d.store.writing.Lock()
	defer d.store.writing.Unlock()
	left, err := d.cover.Left(f, set, rv)
	if err != nil {
		return err
	}
	// Every list contains the objects without a namespace.
	isListed := func(namespace string) bool { return namespace != "" && keyspace.Has(left, namespace) }
	items = slices.DeleteFunc(items, func(item *tree.Item[T]) bool {
		return !isListed(item.Key.Namespace) || f.HasDeleted(item.Key, item.Object.GetResourceVersion())
	})
	items = d.newest(items, isListed, rv)
	tree.Sort(items)
	d.store.publishList(isListed, items, versions.Relist, rv, nil)
	d.cover.Filled(left, rv)
	return nil
}
