// Package parts has what an informer shows to other packages of this module only, above
// all to package reconcile: by its methods a controller treats each namespace by itself,
// tells a deleted object from one that is out of scope, and waits for its own writes.
package parts

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/slots"
)

// Absence is why a cache does not have an object.
type Absence uint8

const (
	// Deleted means that no such object was there when the cache was filled, or since.
	Deleted Absence = iota
	// Cached means that the object has been cached meanwhile.
	Cached
	// Unsynced means that the namespace has not been listed yet.
	Unsynced
	// OutOfScope means that the informer does not read such an object, or that this is not
	// known: nobody knows whether it exists.
	OutOfScope
)

// Cache has the methods of an informer for its siblings. Those of package informer
// implement it.
type Cache interface { //nolint:interfacebloat // it hides a type parameter, not an implementation
	// Shards returns the methods for a replica that works on some shards of the keys.
	Shards() slots.Cache
	// Validate returns everything that is wrong with the options and the client, joined,
	// or nil. Run and WaitForSync return the same error.
	Validate() error
	// Mapping returns the kind, the resource and the scope of the objects, as far as
	// they are known from Options, the client and the Go type: an unknown scope is nil,
	// an unknown resource is empty, and so is the version if the group is unknown. It
	// sends no request.
	//
	// Errors: an Options.Kind other than the kind that the client reads.
	Mapping() (meta.RESTMapping, error)
	// InScope reports whether an object of key could be in the cache: false if key is
	// outside the informer's namespaces, or in a shard that is not added, or if the
	// field selector requires a different name or namespace, or if the key has a namespace
	// and the kind is known to have none. Labels and other fields are
	// not considered, as a key has none: with a selector, true does not mean that an
	// object that is not cached is deleted.
	//
	// A client that does not show which namespaces it reads, such as one written by hand,
	// has only the namespaces in scope of which objects have been cached. State the
	// namespaces with informer.ForNamespaces, even if it is all of them.
	InScope(key types.NamespacedName) bool
	// OnSeen calls f once, when everything up to a resourceVersion has been stored and
	// delivered for a namespace ("" for all): before OnSeen returns if that is already
	// the case, otherwise on the goroutine of the watch, in the order of the OnSeen
	// calls. f must not block. After cancel, f is not called, unless the call has
	// already begun. There is no time limit: f stays registered when Run ends and is
	// started again.
	//
	// A namespace with its own watch (ForNamespaces) does not wait for the watches of
	// others, which may be silent for a minute. A resourceVersion that cannot be
	// compared, as with fakes, is seen when the cache has synced. A server that was
	// restored from a backup counts anew: until the informer has noticed that and listed
	// everything again, it may take a new resourceVersion for an old one.
	OnSeen(namespace, resourceVersion string, f func()) (cancel func())
	// HandleUnreadable calls h with the key of each object that is unreadable already, and
	// later of each one that becomes so, or ceases to be so, until remove is called. Calls
	// come in the order of the changes that handlers receive; h must not block.
	HandleUnreadable(h func(key types.NamespacedName)) (remove func())

	// RunWhole is informer.Run. It calls joined, which may be nil, when it has joined the
	// other calls: from then on the informer is synced only if it is for this one, too.
	RunWhole(ctx context.Context, joined func()) error

	// Independent reports whether informer.Options.Independent is set.
	Independent() bool
	// Shown reports whether it is known which namespaces the informer reads.
	Shown() bool
	// Reads reports whether the informer reads objects of namespace, and whether that is
	// known.
	Reads(namespace string) (in, known bool)
	// Absent returns why the cache does not have the object of key. It asks the server if
	// the informer has selectors that a key does not show.
	Absent(ctx context.Context, key types.NamespacedName) (Absence, error)

	// WaitForStart returns when the first list has come or, if the namespaces are
	// independent, that of one of them, and all others have come or failed.
	WaitForStart(ctx context.Context) error
	// SyncedIn reports whether nothing is missing in namespace: its first list has been
	// delivered, or the informer does not read it.
	SyncedIn(namespace string) bool
	// WaitForSyncIn returns when SyncedIn is true.
	WaitForSyncIn(ctx context.Context, namespace string) error
	// WaitForLatestIn returns when the objects of namespace are at least as new as the
	// server's were at the call.
	WaitForLatestIn(ctx context.Context, namespace string) error
	// Missing returns the namespaces that have not been listed yet.
	Missing() []string
	// Unwell returns why watches bring nothing, by their namespaces, "" for the one of all.
	Unwell() map[string]error
	// WellIn reports whether the watch of namespace has its first list and does not fail.
	WellIn(namespace string) bool
}

// References has the methods of an informer.References that package reconcile calls.
// Those of package informer implement it.
type References interface { //nolint:interfacebloat // it hides a type parameter, not an implementation
	// Validate and Mapping are as those of Cache.
	Validate() error
	Mapping() (meta.RESTMapping, error)

	// Run watches what is held until ctx ends, and calls joined when this caller has joined
	// the others.
	Run(ctx context.Context, joined func()) error
	// Hold keeps the object of key cached until release is called as often.
	Hold(key types.NamespacedName)
	Release(key types.NamespacedName)
	// Holds reports whether the object of key is cached, or will be.
	Holds(key types.NamespacedName) bool
	// State reports whether it is known that the object of key exists, or that it does not;
	// err says why it cannot be known.
	State(key types.NamespacedName) (known bool, err error)
	// HandleState calls h, which must not block, when the State of a key may have changed,
	// until remove is called.
	HandleState(h func(key types.NamespacedName)) (remove func())
	// OnSeen calls f when everything up to a resourceVersion has been delivered of the
	// object of key, or when the key is no longer held.
	OnSeen(key types.NamespacedName, rv string, f func()) (cancel func())
	// WaitForObject returns when, for the object of key, the cache is at least as new as the
	// server was at the call. It sends one request.
	WaitForObject(ctx context.Context, key types.NamespacedName) error
	// Renew makes every State unknown until the cache is at least as new as the server is
	// now. It does not wait for that.
	Renew()
	// LastResourceVersion returns the newest resourceVersion of any watch.
	LastResourceVersion() string
}
