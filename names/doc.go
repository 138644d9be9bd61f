// Package names finds what was left behind by objects that are gone.
//
// A controller that was down, or whose selector has changed, is never told
// about the objects that went meanwhile: only the outside system, which still
// knows their names, can tell. This package compares its names with the cache
// and hands on the difference as ordinary keys.
//
//	Lister ──1. names──▶ Sweep ◀──2. newest objects── Target (the cache)
//	                       │ 3. scope: whose names are they?
//	                       │ 4. brake: is so much to go plausible?
//	                       └──────5. orphans──▶ Target (the queue)
//
// The contract:
//
//   - Names first, then the synced cache. An object that is created and
//     registered in between is in the cache by the time that it is looked up.
//   - All names or an error. An error of the Lister, a cache that does not sync
//     and a name that makes no sense have one effect: nothing is handed on, the
//     sweep is retried with back-off, and [Sweep.Ready] says why.
//   - An orphan is a suspicion. Whether the object is gone is decided by the
//     reconciler at its own turn; a deleter that must be sure asks [Live] first.
//   - A brake refuses a sweep in which both too large a share and too large a
//     number of the names would go: a wrong selector or an empty cache looks
//     exactly like that. [Sweep.Confirm] lets one sweep pass.
//   - A name with a UID is an orphan, too, if its object was replaced by a
//     namesake: the Target hands it on as gone, and then as new.
//
// It does not delete anything, and it keeps no inventory: the outside system is
// the inventory.
package names
