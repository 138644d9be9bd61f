// Package partial has what an informer that keeps the objects of some shards
// does differently from one that keeps all: the interface behind which it does
// that, and the decisions, which know no watch and no store.
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

// Cache is how an informer keeps the objects of some shards, from the first
// call of RunShards until no call of Run is left. An informer that keeps all
// objects has none, and none of its events passes here.
//
// It is an interface so that a program which never calls RunShards does not
// link it.
type Cache[T any] interface { //nolint:interfacebloat // one implementation, and one place that says what it is
	// Put stores the new state of an object that the watch has brought, Remove
	// one that was deleted.
	Put(it *tree.Item[T])
	Remove(last T)
	// Replace makes the list of the watch that is under way the whole content
	// of the shards that it was asked for, and then calls done.
	Replace(rv string, items []*tree.Item[T], how versions.Occasion, done func())
	// CaughtUp notes that the watch has come to rv.
	CaughtUp(rv string)

	// Wanted returns the shards whose objects are kept, and Complete those of
	// which all objects have been listed.
	Wanted() keyspace.Set
	Complete() keyspace.Set
	// Side is where objects of other shards are left out, "client" or "server";
	// empty while that is unknown.
	Side() string

	// SelectList begins a list of the watch, or its next page, SelectWatch a
	// watch, of which it returns the shards, and Select any other request for
	// some shards.
	SelectList(opts *metav1.ListOptions)
	SelectWatch(opts *metav1.ListOptions, streaming bool) keyspace.Set
	Select(opts *metav1.ListOptions, of keyspace.Set)
	// List and Watch leave out objects of other shards before they decode them,
	// if that is possible. Keep does that for another client.
	List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
	Keep() wire.Keep

	// Join follows a call of Run, of one that wants all objects if whole is
	// set, until leave is called. It drops what another session has left, and
	// calls joined.
	Join(ctx context.Context, whole bool, joined func()) (leave func())
	// End removes all objects: no call of Run is left.
	End()
}
