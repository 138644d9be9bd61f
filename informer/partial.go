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

// partial is what a session of shards does differently. It has functions, and is no
// interface, so that programs that call RunShards nowhere do not link them:
// dictionaries of generic types keep what implements an interface.
type partial[T Object] struct {
	// begin makes the store, which is empty, one of shards, unless the informer is whole.
	begin func() bool
	// join drops what another session has left, calls joined, and keeps all objects, if
	// whole is set, until leave is called.
	join func(ctx context.Context, s *session[T], whole bool, joined func()) (leave func())
	// end empties the store and makes it whole again.
	end func()
	// lacks reports whether a user of all objects still waits for some. The caller holds
	// feed.mu.
	lacks func(s *session[T]) bool

	// selects makes a list or a watch one of set, and note notes on which side a list was
	// filtered.
	selects func(opts *metav1.ListOptions, set keyspace.Set)
	note    func(r *reflectorStore[T], list any)
	// list and watch leave out what belongs to other shards before it is decoded, if that
	// is possible.
	list  func(ctx context.Context, s *specReader[T], opts metav1.ListOptions) (runtime.Object, error)
	watch func(ctx context.Context, s *specReader[T], opts metav1.ListOptions) (w watch.Interface, quiet bool, err error)
	keep  func() wire.Keep
	// replace makes the list of the watch that is under way the whole content of its
	// shards.
	replace func(rv string, items []*item[T], initial bool, done func())
}

// The sides that leave out the objects of other shards.
const (
	sideClient = "client"
	sideServer = "server"
)

// divided has the functions of partial.
type divided[T Object] struct{ feed *feed[T] }

func (d divided[T]) functions() *partial[T] {
	return &partial[T]{
		begin: d.begin, join: d.join, end: d.end, lacks: d.lacks, selects: d.selects, note: d.note, list: d.list,
		watch: d.watch, keep: d.keep, replace: d.feed.store.replaceShards,
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
	if scopeOf[T](d.feed.options, false) == "" { // its objects may have no namespace: then every replica has them
		none := keyspace.Of("")
		set = keyspace.Union(set, keyspace.Set{{First: none, Last: none}})
	}
	opts.ShardSelector = set.Selector()
}

func (d divided[T]) note(r *reflectorStore[T], list any) {
	side := sideClient
	if of, ok := list.(metav1.ListMetaAccessor); ok { // its methods would be linked for each of hundreds of lists
		if m, ok := of.GetListMeta().(*metav1.ListMeta); ok && m.ShardInfo != nil {
			side = sideServer
		}
	}
	r.filter.Store(&side)
}

func (d divided[T]) list(
	ctx context.Context, s *specReader[T], opts metav1.ListOptions,
) (runtime.Object, error) {
	through, ok := d.through(s)
	if !ok {
		return s.source.list(ctx, opts)
	}
	return through.Get().UseProtobufAsDefault().Resource(s.source.resource.Resource).
		VersionedParams(&opts, metav1.ParameterCodec).Do(ctx).Get()
}

func (d divided[T]) watch(
	ctx context.Context, s *specReader[T], opts metav1.ListOptions,
) (w watch.Interface, quiet bool, err error) {
	through, ok := d.through(s)
	if !ok {
		w, err = s.source.watch(ctx, opts)
		return w, false, err
	}
	w, err = clientOf[T](through, s.source.resource.Resource, s.source.namespace).Watch(ctx, opts)
	return w, true, err
}

// through returns a client like the source's that leaves out the objects of other
// shards.
func (d divided[T]) through(s *specReader[T]) (through rest.Interface, ok bool) {
	if s.source.rest == nil || s.source.resource.Resource == "" {
		return nil, false
	}
	through, why := wire.Through(s.source.rest, d.keep())
	return through, why == ""
}

func (d divided[T]) keep() wire.Keep { return wire.Wanted(d.feed.store.shards.keeps) }
