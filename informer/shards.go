package informer

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"github.com/homeostat/homeostat/internal/keyspace"
	shardslots "github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/internal/wire"
)

// Shards returns the informer's methods for a replica that works on some shards of the keys.
// Package reconcile calls them if Options.Shards is a ranges.Shards.
func (i *Informer[T]) Shards() shardslots.Cache { return shards[T]{i} }

// shards implements [shardslots.Cache].
type shards[T Object] struct{ of *Informer[T] }

// RunShards is [Informer.Run] for a replica that works on shards of the keys: only
// the objects of shards that were added with AddShards are listed, watched
// and cached, and those without a namespace.
//
// An informer is whole all the same while a call of Run is active, and if
// Options.Whole is set, if its kind has no namespaces, if it is made by ForNamespaces,
// or if its client is bound to a namespace or a fake.
//
// joined, which may be nil, is called when it has joined the other calls: from then on
// HasSynced and WaitForSync answer for this one, too.
func (s shards[T]) RunShards(ctx context.Context, joined func()) error {
	return run(ctx, s.of, divided[T]{s.of.feed}.functions(), joined)
}

// RunWhole is [Informer.Run] with joined, as RunShards has it.
func (s shards[T]) RunWhole(ctx context.Context, joined func()) error {
	return run(ctx, s.of, nil, joined)
}

// AddShards makes the cache keep the objects of these shards too, which are ranges of
// the hash of the namespace, until remove is called with them. When it returns, the cache has all
// of them, at least as new as the server was at the call, and every handler has
// received them, as Added. Other shards stay watched, and nothing of them is
// listed again.
//
// remove drops the objects that no other call keeps, and returns then. They are delivered
// as Deleted: before remove returns, unless handlers are called by another goroutine, which
// then does it. AddShards and remove must not be called by a handler.
//
// A server with the feature ShardedListAndWatch sends the objects of the shards only.
// Objects of other shards that another server sends are left out before they are
// decoded, if the client is a generated one of a built-in kind, and otherwise before
// they are stored.
//
// Errors: ranges of another field than object.metadata.namespace; an informer that is
// not running; that of ctx. Failed requests are logged and repeated.
func (s shards[T]) AddShards(
	ctx context.Context, shards ...sharding.ShardRangeRequirement,
) (remove func(shards ...sharding.ShardRangeRequirement), err error) {
	set, err := setOf(shards)
	var removeSet func(keyspace.Set)
	if err == nil {
		removeSet, err = s.of.feed.addShards(ctx, set)
	}
	if err != nil {
		return nil, fmt.Errorf("adding shards to the informer of %s: %w", s.of.Name(), err)
	}
	return func(shards ...sharding.ShardRangeRequirement) {
		if of, err := setOf(shards); err == nil {
			removeSet(of)
		}
	}, nil
}

// setOf returns the union of shards.
//
// Errors: all requirements that are no range of the hash of the namespace, joined.
func setOf(shards []sharding.ShardRangeRequirement) (set keyspace.Set, err error) {
	for _, requirement := range shards {
		r, ok, wrong := keyspace.Parse(keyspace.Requirement(requirement))
		if err = errors.Join(err, wrong); ok {
			set = keyspace.Union(set, keyspace.Set{r})
		}
	}
	return set, err
}

// CountNamespaces returns how many objects the server has in each namespace. It lists
// them page by page and retains none.
func (s shards[T]) CountNamespaces(ctx context.Context) (map[string]int, error) {
	i := s.of
	counts := map[string]int{}
	for _, from := range i.feed.currentSources() {
		if from.list == nil {
			return nil, fmt.Errorf("counting the objects of %s: %w", i.Name(), errWrapped)
		}
		options := metav1.ListOptions{LabelSelector: i.options.LabelSelector, FieldSelector: i.options.FieldSelector}
		if err := pager.New(from.list).EachListItem(ctx, options, func(obj runtime.Object) error {
			if object, ok := obj.(T); ok {
				counts[object.GetNamespace()]++
			}
			return nil
		}); err != nil {
			return nil, fmt.Errorf("counting the objects of %s: %w", i.Name(), err)
		}
	}
	return counts, nil
}

// divided has the functions of partial.
type divided[T Object] struct{ feed *feed[T] }

func (d divided[T]) functions() *partial[T] {
	return &partial[T]{
		begin: d.begin, join: d.join, end: d.end, lacks: d.lacks,
		watches: shardWatch[T]{
			selects: d.selects, side: d.side, list: d.list, watch: d.watch, keep: d.keep,
			replace: d.feed.store.replaceShards,
		},
	}
}

func (d divided[T]) begin() bool {
	if !d.feed.divisible() {
		return false
	}
	d.feed.store.shards.divide()
	return true
}

func (d divided[T]) join(ctx context.Context, s *session[T], whole bool, joined func()) (leave func()) {
	d.feed.cover(s)
	d.feed.updateSynced() // without shards there is nothing to wait for, and a user of all may be new
	joined()
	if whole {
		if remove, err := d.feed.addShards(ctx, keyspace.Whole()); err == nil {
			return func() { remove(keyspace.Whole()) }
		}
	}
	return func() {}
}

func (d divided[T]) end() {
	d.feed.store.writing.Lock()
	d.feed.store.retainLocked(func(string) bool { return false })
	d.feed.store.shards.whole()
	d.feed.store.writing.Unlock()
	d.feed.store.delivery.run()
}

func (d divided[T]) lacks(s *session[T]) bool {
	return s.whole > 0 && len(d.feed.store.shards.missing(keyspace.Whole())) > 0
}

func (d divided[T]) selects(opts *metav1.ListOptions, set keyspace.Set) {
	if scopeOf[T](d.feed.options, "", false) == "" { // its objects may have no namespace: then every replica has them
		none := keyspace.Of("")
		set = keyspace.Union(set, keyspace.Set{{First: none, Last: none}})
	}
	opts.ShardSelector = set.Selector()
}

func (d divided[T]) side(list any) string {
	if of, ok := list.(metav1.ListMetaAccessor); ok { // its methods would be linked for each of hundreds of lists
		if m, ok := of.GetListMeta().(*metav1.ListMeta); ok && m.ShardInfo != nil {
			return sideServer
		}
	}
	return sideClient
}

func (d divided[T]) list(ctx context.Context, from source, opts metav1.ListOptions) (runtime.Object, error) {
	through, ok := d.through(from)
	if !ok {
		return from.list(ctx, opts)
	}
	return through.Get().UseProtobufAsDefault().Resource(from.resource.Resource).
		VersionedParams(&opts, metav1.ParameterCodec).Do(ctx).Get()
}

func (d divided[T]) watch(ctx context.Context, from source, opts metav1.ListOptions) (watch.Interface, error) {
	if through, ok := d.through(from); ok {
		return clientOf[T](through, from.resource.Resource, from.namespace).Watch(ctx, opts)
	}
	return from.watch(ctx, opts)
}

// through returns a client like the source's that leaves out the objects of other
// shards.
func (d divided[T]) through(from source) (through rest.Interface, ok bool) {
	if from.rest == nil || from.resource.Resource == "" || from.itemwise.isOn() {
		return nil, false
	}
	through, why := wire.Through(from.rest, d.keep())
	return through, why == ""
}

func (d divided[T]) keep() wire.Keep { return wire.Wanted(d.feed.store.shards.keeps) }
