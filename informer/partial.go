package informer

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/keyspace"
	"github.com/homeostat/homeostat/internal/wire"
)

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
