// Package parts has the methods of informers for other packages of this module,
// above all for package reconcile. With these methods a controller treats each
// namespace separately, distinguishes a deleted object from an object that is
// out of scope, and waits for its own writes.
package parts

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/slots"
)

// Absence is the reason why a cache does not have an object.
type Absence uint8

const (
	// Deleted means that the object did not exist when the cache was filled, or
	// was deleted since.
	Deleted Absence = iota
	// Cached means that the object has been cached in the meantime.
	Cached
	// Unsynced means that the namespace has not been listed yet.
	Unsynced
	// OutOfScope means that the informer does not read the object, or that it
	// is not known whether the informer reads it. The object may exist.
	OutOfScope
)

// Cache has the methods of an informer that other packages of this module call.
// The informers of package informer implement it.
type Cache interface { //nolint:interfacebloat // it hides a type parameter, not an implementation
	// Shards returns the methods for a replica that reconciles only the keys of
	// some shards.
	Shards() slots.Cache
	// Validate returns the errors of the options and the client, joined, or
	// nil. Run and WaitForSync return the same error.
	Validate() error
	// Mapping returns the kind, the resource and the scope of the objects. It
	// knows them from Options, the client and the Go type, and sends no
	// request. An unknown scope is nil, an unknown resource is empty, and the
	// version is empty if the group is unknown.
	//
	// It returns an error if Options.Kind is not the kind that the client
	// reads.
	Mapping() (meta.RESTMapping, error)
	// InScope reports whether an object of key could be in the cache. It
	// reports false if key is outside the informer's namespaces, or in a shard
	// that is not added; if the field selector requires a different name or
	// namespace; or if the key has a namespace although the kind has no
	// namespaces. Labels and other fields are not considered, since a key does
	// not contain them: with a selector, true does not mean that an object that
	// is not cached is deleted.
	//
	// For a client that does not show which namespaces it reads, for example a
	// client written by hand, only the namespaces of cached objects are in
	// scope. State the namespaces with informer.ForNamespaces, even if they are
	// all namespaces.
	InScope(key types.NamespacedName) bool
	// OnSeen calls f once, when all changes up to a resourceVersion have been
	// stored and delivered for a namespace ("" for all namespaces). If that is
	// already the case, it calls f before it returns; otherwise the goroutine
	// of the watch calls f, in the order of the OnSeen calls. f must not block.
	// After cancel, f is not called, unless the call has already begun. There
	// is no time limit: f stays registered when Run ends and is started again.
	//
	// A namespace with its own watch (ForNamespaces) does not wait for the watches
	// of other namespaces. They may be silent for a minute. A resourceVersion that
	// cannot be compared, as with fakes, is seen when the cache has synced. A
	// server that was restored from a backup counts anew. Until the informer has
	// noticed that and listed all objects again, it may mistake a new
	// resourceVersion for an old one.
	OnSeen(namespace, resourceVersion string, f func()) (cancel func())
	// HandleUnreadable calls h with the key of each object that is unreadable
	// already, and later with the key of each object that becomes unreadable or
	// readable, until remove is called. The calls have the order of the changes
	// that handlers receive. h must not block.
	HandleUnreadable(h func(key types.NamespacedName)) (remove func())

	// RunWhole is informer.Run. It calls joined when it has joined the other
	// calls. joined may be nil. From then on, the informer is synced only if it is
	// synced for this call, too.
	RunWhole(ctx context.Context, joined func()) error

	// Independent reports whether informer.Options.Independent is set.
	Independent() bool
	// Shown reports whether it is known which namespaces the informer reads.
	Shown() bool
	// Simulated reports whether the objects do not come from an API server, as
	// with fakes. Objects of a server have a UID and a resourceVersion.
	Simulated() bool
	// Reads reports whether the informer reads objects of namespace. known is
	// false if that cannot be told from its client and options.
	Reads(namespace string) (reads, known bool)
	// Absent returns why the cache does not have the object of key. It sends a
	// request to the server if the informer has selectors that cannot be judged
	// by a key.
	Absent(ctx context.Context, key types.NamespacedName) (Absence, error)

	// WaitForStart waits for the first list. If the namespaces are independent,
	// it waits until one of them has been listed.
	WaitForStart(ctx context.Context) error
	// Unreadable returns the identity, the labels and the owners of each object
	// that exists, but cannot be cached.
	Unreadable() []metav1.ObjectMeta
	// SyncedIn reports whether the cache has all objects of namespace: either
	// its first list has been delivered, or the informer does not read it.
	SyncedIn(namespace string) bool
	// WaitForSyncIn waits until SyncedIn is true.
	WaitForSyncIn(ctx context.Context, namespace string) error
	// WaitForLatestIn waits until the objects of namespace are at least as new
	// as the server's were at the call.
	WaitForLatestIn(ctx context.Context, namespace string) error
	// WaitForLatestElsewhere does the same for all namespaces with a watch of
	// their own that have been listed, except for those in apart.
	WaitForLatestElsewhere(ctx context.Context, apart map[string]bool) error
	// Missing returns the namespaces that have not been listed yet.
	Missing() []string
	// Unwell returns the errors of failing watches by their namespace. The key
	// of the watch of all namespaces is "".
	Unwell() map[string]error
	// WellIn reports whether the watch of namespace has delivered its first
	// list and is not failing.
	WellIn(namespace string) bool
}

// References has the methods of an informer.References that package reconcile
// calls. Package informer implements it.
type References interface { //nolint:interfacebloat // it hides a type parameter, not an implementation
	// Validate and Mapping do the same as the methods of Cache.
	Validate() error
	Mapping() (meta.RESTMapping, error)

	// Run watches the held objects until ctx ends. It calls joined when this
	// call has joined the other calls of Run.
	Run(ctx context.Context, joined func()) error
	// Hold keeps the object of key cached until Release has been called as
	// often as Hold.
	Hold(key types.NamespacedName)
	Release(key types.NamespacedName)
	// Holds reports whether the object of key is cached, or will be.
	Holds(key types.NamespacedName) bool
	// State reports whether it is known that the object of key exists, or that
	// it does not exist. err is the reason why neither can be known.
	State(key types.NamespacedName) (known bool, err error)
	// HandleState calls h when the State of a key may have changed, until
	// remove is called. h must not block.
	HandleState(h func(key types.NamespacedName)) (remove func())
	// OnSeen calls f when all changes of the object of key up to a
	// resourceVersion have been delivered, or when the key is no longer held.
	OnSeen(key types.NamespacedName, rv string, f func()) (cancel func())
	// WaitForObject waits until, for the object of key, the cache is at least
	// as new as the server was at the call. It sends one request.
	WaitForObject(ctx context.Context, key types.NamespacedName) error
	// Renew makes every State unknown until the cache is at least as new as the
	// server is now. It returns at once.
	Renew()
	// LastResourceVersion returns the newest resourceVersion of any watch.
	LastResourceVersion() string
}
