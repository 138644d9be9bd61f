// Package dropin lets package clientgo offer client-go's shared informers with the
// engine of package informer.
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

// errNoRequests answers requests.
var errNoRequests = errors.New("a shared informer sends only lists and watches of its ListerWatcher")

// Client stands for a ListerWatcher where informer.For expects a client.
type Client[T any] struct {
	ListerWatcher cache.ListerWatcher
	// Example shows the type of the objects. If it is nil, objects of all types are
	// stored.
	Example runtime.Object
	// Settings is called when the informer begins to run.
	Settings func() Settings
	Observer Observer[T]
	// Store is set by informer.For.
	Store Store[T]
}

// Settings are what a shared informer may change until it runs.
type Settings struct {
	// Description of the objects in client-go's logs. Defaults to their type.
	Description string
	// Transform is called for each object before it is stored; nil for none.
	Transform cache.TransformFunc
	// ShouldResync is called every ResyncPeriod, unless that is 0, and reports
	// whether to call Observer.Resync.
	ResyncPeriod time.Duration
	ShouldResync func() bool
	// Failed is called with each error that ends a watch; nil for none.
	Failed cache.WatchErrorHandlerWithContext
}

// Observer is told what was stored. It is locked while something is stored and
// told, so the calls below do not overlap. They must not wait for anything.
type Observer[T any] interface { //nolint:interfacebloat // what client-go's handlers are told
	sync.Locker

	// Put tells that an object was stored. The old one is the zero T if there
	// was none.
	Put(old, object T)
	// Deleted tells of an event of a deletion, with the last state, also if no
	// such object was stored.
	Deleted(last T)
	// Lost tells that an object was removed whose last state is not known.
	Lost(cached T)
	// Replaced tells that a list was stored: which objects are no longer there,
	// and which are, each with the one before, which is the zero T if there was
	// none, and the same object if nothing has changed.
	Replaced(lost []T, now iter.Seq2[T, T], resourceVersion string)
	// CaughtUp tells that everything up to a resourceVersion is stored.
	CaughtUp(resourceVersion string)
	// Resync tells that it is time to deliver all objects again.
	Resync()
}

// Store is what is stored, without observers.
type Store[T any] interface {
	Put(object T)
	Remove(key types.NamespacedName)
	Replace(objects []T)
}

// Get fails.
func (*Client[T]) Get(context.Context, string, metav1.GetOptions) (object T, err error) {
	return object, errNoRequests
}

// List lists with the ListerWatcher.
func (c *Client[T]) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return cache.ToListerWatcherWithContext(c.ListerWatcher).ListWithContext(ctx, opts)
}

// Watch watches with the ListerWatcher.
func (c *Client[T]) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return cache.ToListerWatcherWithContext(c.ListerWatcher).WatchWithContext(ctx, opts)
}
