// Package names finds what was left behind by deleted objects.
//
// A controller that was down, or whose selector has changed, never hears of the
// objects that were deleted meanwhile: only the outside system, which still
// knows their names, can tell. This package compares its names with the cache
// and enqueues the difference as ordinary keys.
//
//	Lister ──1. names──▶ Sweep ◀──2. newest objects── Target (the cache)
//	                       │ 3. scope: whose names are they?
//	                       │ 4. safety limit: are that many orphans plausible?
//	                       └──────5. orphans──▶ Target (the queue)
//
// The contract:
//
//   - The names are listed first, and then the cache is synced: an object that
//     is created and registered in between is no orphan.
//   - All names or none: if the Lister fails, panics or takes longer than
//     Options.Timeout, or the cache does not sync, no orphan is enqueued, the
//     sweep is retried with back-off, and [Sweep.Ready] says why.
//   - A sweep in which more than MaxCount names and more than MaxShare of them
//     would be orphans is refused. [Sweep.Confirm] lets one sweep pass.
//   - A name with a UID is an orphan, too, if its object was recreated:
//     Orphan.Replaced says so.
//   - [Live] asks the server, not a cache, and tells a deleted object from an
//     error.
//
// A wrong selector or an empty cache looks exactly like a cluster whose objects
// are all deleted, hence the safety limit. An orphan is a suspicion: whether the
// object is deleted is decided by its reconciler, which asks Live before it
// deletes what cannot be restored; informer.Informer.IsDeleted saves most of those
// requests when many objects are deleted at once.
//
// The package does not delete anything, and it keeps no inventory: the outside
// system is the inventory.
package names
