package informer

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/clients"
	"github.com/homeostat/homeostat/internal/keyspace"
	"github.com/homeostat/homeostat/internal/rvorder"
)

// IsDeleted reports whether the server is known to have no object of key,
// without a request for this object. It returns true only if the cache does not
// have the object, has all other objects of the namespace, and is at most 100
// ms behind the server or as new as the server was at the call. If it returns
// false, the object may exist or not; ask the server, for example with
// names.Live.
//
// A cache that is empty or late does not prove a deletion, so isolated calls
// return false. If there are many calls, one request at most every 100 ms reads
// the server's resourceVersion for all of them, and they return true once the
// watch has reached it. For example, a mass deletion is confirmed by a few
// requests instead of one for each object.
//
// A caller may then delete things that belonged to the object. This is as safe
// as a GET followed by a DELETE that takes 100 ms longer to arrive, in which
// time the object may be recreated. It is not safe with an API that hides
// objects from an account, such as the Projects of OpenShift: its lists and
// watches show them as deleted, and only names.Live returns an error.
//
// A call waits for that request, and then for at most 200 ms. It returns false
// for an object that is unreadable (see [Informer.Unreadable]). It always
// returns false for caches with selectors, wrapped informers and fakes, for
// aggregated API servers whose resourceVersions are not in order (see
// [Status].Restores), and for namespaced kinds if it is not certain which
// objects the client reads. For example, the client is written by hand, or has
// a type that embeds the interface of a client. In the last case make the
// informer with [ForNamespaces].
func (i *Informer[T]) IsDeleted(ctx context.Context, key types.NamespacedName) bool {
	if i.mayExist(key) || !i.admits(key) {
		return false
	}
	r := i.feed.completeFor(key)
	if r == nil || !r.proof.Holds(ctx, r.prove) {
		return false
	}
	// The cache was emptied if the watch has ended or the namespace has left
	// the scope. A missing object then proves nothing.
	return !i.mayExist(key) && i.feed.completeFor(key) == r
}

// mayExist reports whether the object of key is cached or unreadable.
func (i *Informer[T]) mayExist(key types.NamespacedName) bool {
	unreadable := i.Unreadable(key) != nil // checked first, because the object may become readable in between
	_, cached := i.Get(key)
	return unreadable || cached || i.Unreadable(key) != nil
}

// completeFor returns the watch that delivers all objects of key's namespace.
// It returns nil if no watch is known to deliver all of them. For example, the
// informer has a selector, or the namespace has not been listed yet.
func (f *feed[T]) completeFor(key types.NamespacedName) *reflectorStore[T] {
	if f.options.LabelSelector != "" || f.options.FieldSelector != "" || !f.syncedIn(key.Namespace) {
		return nil
	}
	if part := f.part(); part != nil && !keyspace.Has(part.Complete(), key.Namespace) {
		return nil
	}
	watches, _ := f.current()
	for _, r := range watches {
		watched := r.source.namespace
		if watched != metav1.NamespaceAll && watched != key.Namespace {
			continue
		}
		if r.source.fake || r.source.follows != nil || r.source.reach.Certainty != clients.Certain {
			return nil
		}
		return r
	}
	return nil
}

// prove reports whether the watch is known to have reached the resourceVersion
// that the server had at the call. It waits at most proofWait for the watch. It
// also returns false if the server does not answer, or if the resourceVersions
// cannot be compared.
func (r *reflectorStore[T]) prove(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, versions.Pause)
	defer cancel()
	limit := int64(1)
	if r.sink.store.snapshot().Len() <= proofPage {
		limit = proofPage
	}
	b := newBacklog(r, limit, nil)
	hasMore, err := b.addPage(ctx)
	if err != nil {
		return false
	}
	if r.disordered.Load() || !rvorder.Comparable(b.startRV, b.rv) || rvorder.Older(b.rv, b.startRV) {
		return false // the two resourceVersions prove nothing
	}
	ctx, cancel = context.WithTimeout(ctx, proofWait)
	defer cancel()
	if !hasMore {
		b.addMissing()
		return b.wait(ctx, nil, b.empty) == nil && (!b.reached() || b.verdict() == nil)
	}
	return versions.WaitFor(ctx, func(f func()) func() {
		return r.sink.marks.On(&versions.Waiter{Namespace: r.source.namespace, RV: b.rv, Call: f})
	})
}

const (
	// proofPage is the largest number of objects that are listed to be compared
	// with the cache. If the cache has more, only the server's resourceVersion
	// is read.
	proofPage = 100
	// proofWait is how long the watch may take to reach the server's
	// resourceVersion.
	proofWait = 200 * time.Millisecond
)
