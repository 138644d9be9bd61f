// Package names finds what deleted objects have left behind in an outside
// system, such as DNS records, files or cloud volumes:
//
//	records := names.Func(func(ctx context.Context) ([]names.Name, error) { return dns.Names(ctx) })
//
//	controller, err := reconcile.New("dns", services, reconciler, &reconcile.Options{Known: records})
//
// A controller that was down while an object was deleted, or whose selector has
// changed, is never told about the deletion; only the outside system still
// knows the name. This package compares the names there with the cache, at the
// start and periodically, and enqueues the difference as ordinary keys.
//
//	Lister ──1. names──▶ Sweep ◀──2. newest objects── Target (the cache)
//	                       │ 3. scope: whose names are they?
//	                       │ 4. safety limit: are that many orphans plausible?
//	                       └──────5. orphans──▶ Target (the queue)
//
// The contract:
//
//   - The names are listed first, and the cache is synced after that, so an
//     object that is created and registered in between is not an orphan.
//   - All names or none: if the Lister fails, panics or takes longer than
//     Options.Timeout, or the cache does not sync, no orphan is enqueued, the
//     sweep is retried with back-off, and [Sweep.Ready] says why.
//   - A sweep in which more than MaxCount names and more than MaxShare of them
//     would be orphans is refused. [Sweep.Confirm] lets one sweep pass.
//   - A name with a UID is also an orphan if its object was recreated:
//     Orphan.Replaced is then set.
//   - [Live] asks the server, not a cache, and distinguishes a deleted object
//     from an error.
//   - Only the server's own answer about this object proves that it is deleted,
//     not any status 404.
//
// The safety limit exists because a wrong selector or an empty cache looks
// exactly like a cluster in which all objects have been deleted. An orphan is
// only a suspicion: its reconciler decides whether the object is deleted, and
// asks Live before it deletes what cannot be restored.
// informer.Informer.IsDeleted saves most of these requests when many objects
// are deleted at once.
//
// The Lister must return only names that belong to this cluster. If the
// programs of several clusters keep names in one outside system, each of them
// has no objects for the names of the others, and its API server says so,
// truthfully, when Live asks. Below the safety limit the names of the others
// would be cleaned up. So record with each name which cluster it belongs to,
// for example by the UID of the namespace kube-system, and let the [Lister]
// return no other names.
//
// The package itself does not delete, and it keeps no inventory: the outside
// system is the inventory.
package names
