// Package partial describes how an informer keeps the objects of some shards
// instead of all objects: an interface for the cache, and decisions that depend
// neither on a watch nor on a store.
package partial

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/keyspace"
	"github.com/homeostat/homeostat/internal/wire"
)

// Cache is an informer's cache of the objects of some shards. An informer has
// one if it was started by RunShards, until the last call of RunShards or Run
// has ended. While a call of Run is active, the Cache keeps all objects. An
// informer that was started by Run keeps all objects without a Cache.
//
// It is an interface because a program which never calls RunShards must not
// link the implementation.
type Cache[T any] interface { //nolint:interfacebloat // it has one implementation
	// Put stores the new state of an object that the watch has delivered.
	// Remove removes an object.
	Put(item *tree.Item[T])
	Remove(last T)
	// Replace replaces all objects of the requested shards with the items that the
	// watch has listed, and then calls done.
	Replace(rv string, items []*tree.Item[T], occasion versions.Occasion, done func())
	// CaughtUp records that the watch has reached rv.
	CaughtUp(rv string)

	// Wanted returns the shards whose objects are kept. Complete returns the
	// shards whose objects have all been listed.
	Wanted() keyspace.Set
	Complete() keyspace.Set
	// Side returns which side leaves out objects of other shards: "client",
	// "server", or the empty string if this is not known yet.
	Side() string

	// SelectList, SelectWatch and Select restrict a request to shards.
	// SelectList is for a list of the watch and for its further pages.
	// SelectWatch is for a watch, and returns the shards of the watch. Select
	// is for all other requests.
	SelectList(opts *metav1.ListOptions)
	SelectWatch(opts *metav1.ListOptions, streaming bool) keyspace.Set
	Select(opts *metav1.ListOptions, set keyspace.Set)
	// List and Watch drop objects of other shards, if possible before they are
	// decoded. Keep returns a function that does this for another client.
	List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
	Keep() wire.Keep

	// Join adds a call of Run until leave is called. whole is true if the
	// caller of Run wants all objects. Join drops the objects that an earlier
	// session has left, and calls joined.
	Join(ctx context.Context, whole bool, joined func()) (leave func())
	// End removes all objects after the last call of Run.
	End()
}
