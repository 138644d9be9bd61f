// Package parts has the methods of an informer by which package reconcile treats each
// namespace by itself, and tells a deleted object from one that is out of scope.
package parts

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
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

// Cache has the methods of an informer that treat one namespace. Those of package
// informer implement it.
type Cache interface { //nolint:interfacebloat // it hides a type parameter, not an implementation
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
