// Package dropin lets package clientgo offer client-go's shared informers with
// the engine of package informer.
package dropin

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// errNoRequests is returned by Get, because a ListerWatcher has no method that
// reads a single object.
var errNoRequests = errors.New("a shared informer cannot read a single object: a ListerWatcher only lists and watches")

// Client passes a ListerWatcher to informer.For, which expects a client.
type Client[T any] struct {
	ListerWatcher cache.ListerWatcher
	// Example shows the type of the objects. If it is nil, objects of all types
	// are stored.
	Example runtime.Object
	// Settings returns the settings that apply to one run of the informer. The
	// informer calls it when the run begins.
	Settings func() Settings
	Observer Observer[T]
	// Store is the cache of the informer. informer.For sets it.
	Store Store[T]
}

// Settings are options of a shared informer that can change until it runs.
type Settings struct {
	// Description describes the objects in client-go's logs. Defaults to their
	// type.
	Description string
	// Transform is called for each object before it is stored. It may be nil.
	Transform cache.TransformFunc
	// DropManagedFields stores objects without metadata.managedFields.
	DropManagedFields bool
	// ResyncPeriod is the time between two calls of ShouldResync. ShouldResync
	// reports whether to call Observer.Resync. If ResyncPeriod is 0, ShouldResync
	// is never called.
	ResyncPeriod time.Duration
	ShouldResync func() bool
	// Failed is called with each error that ends a list or a watch. It may be
	// nil.
	Failed cache.WatchErrorHandlerWithContext
}

// Observer is informed of changes of the store. The informer locks it while a
// change is stored and reported. So calls of its other methods do not overlap.
// Its methods must not block.
type Observer[T any] interface { //nolint:interfacebloat // the events of client-go's handlers
	sync.Locker

	// Put reports that an object was stored. old is the zero T if the object is
	// new.
	Put(old, object T)
	// Deleted reports a deletion with the last state, even if the object was
	// not stored.
	Deleted(last T)
	// Lost reports the removal of an object whose last state is not known.
	Lost(cached T)
	// Replaced reports that a list was stored. lost contains the objects that
	// the list has removed. current yields each stored object after its old
	// state. The old state is the zero T if the object is new, and the object
	// itself if it has not changed.
	Replaced(lost []T, current iter.Seq2[T, T], resourceVersion string)
	// CaughtUp reports that all changes up to a resourceVersion have been
	// stored.
	CaughtUp(resourceVersion string)
	// Resync reports that it is time to deliver all objects again.
	Resync()
}

// Store writes to the cache without calling observers.
type Store[T any] interface {
	Put(object T)
	Remove(key types.NamespacedName)
	Replace(objects []T)
}

// Get returns an error, because a ListerWatcher cannot read a single object.
func (*Client[T]) Get(context.Context, string, metav1.GetOptions) (object T, err error) {
	return object, errNoRequests
}

// List calls the ListerWatcher.
func (c *Client[T]) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return cache.ToListerWatcherWithContext(c.ListerWatcher).ListWithContext(ctx, opts)
}

// Watch calls the ListerWatcher.
func (c *Client[T]) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return cache.ToListerWatcherWithContext(c.ListerWatcher).WatchWithContext(ctx, opts)
}
