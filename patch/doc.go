// Package patch writes edits of cached objects: it sends what the edit changed
// and nothing else, and no request when nothing changed.
//
// An update with the whole object undoes what its author does not know: fields of
// a newer server, changes made since the read. A patch does not, but making one is
// usually slow, and a patch gives up the lock that an update had.
//
//	cached ──deep copy──▶ edit ──▶ compare ──┬─ equal ─────▶ no request, cached
//	  (shared, read only)                    └─ different ─▶ PATCH ──▶ answer
//	                                                ▲          │
//	                                           Options.Lock    └──▶ the reconcile's record
//
// [Merge] edits anything, [Status] the status subresource, [Ensure] creates what is
// missing, [Delete] deletes what was read, an [Applier] applies configurations
// server-side and remembers what it has asked, a [Finalizer] cleans up outside the
// cluster. Package children keeps all objects that one owner owns.
//
// The contract:
//
//   - The cached object is never written to.
//   - An edit gets a deep copy, which it may retain.
//   - Go types of k8s.io/api get a strategic merge patch: lists are merged by
//     key, so changes by other clients survive in them.
//   - All other types, and edits of lists whose merge keys are missing or not
//     unique, get a JSON merge patch (RFC 7386), which replaces changed lists.
//   - The resourceVersion is locked where a JSON merge patch replaces a list of a
//     type of k8s.io/api, finalizers or owner references.
//   - A map of labels or annotations, and a list that is merged by key, is emptied
//     one by one: what other clients have added since the read stays.
//   - No write reaches a different object: it goes to the client of the cached
//     object's namespace, and the UID is a condition, so that a recreated object is
//     refused, too.
//   - An answer about a different object is an error that names both.
//   - Where servers ignore the UID, in the status and the scale of custom kinds, the
//     resourceVersion is locked.
//   - The status of a custom kind with a Go type notes the generation that it is
//     about, and so do the conditions that an edit sets.
//   - Other writes of the cached object are locked only by [Options].Lock.
//   - A refused condition satisfies [IsStale].
//   - Every edit and every configuration is sent with a field manager.
//   - Every write is reported to the reconcile whose context it has, except for dry
//     runs.
//   - What is wrong before any request is an error that names it.
//
// Functions take no client but the function that returns that of a namespace
// (clientset.CoreV1().Pods; see [Client] and [ClusterScoped]). After a write, the
// reconcile's key is held until the caches show it. A refusal is no failure: the
// next reconcile sees the newest object.
//
// It does not retry. It cannot store a null, as an unstructured object may have
// one: a null in a merge patch removes the member. It reads only where an answer
// leaves it no choice: Ensure, if the cache was wrong, and a write of a subresource
// that was not found.
//
// Generated, gentype, dynamic and metadata clients work, and so do fake
// clientsets. The namespace of a dynamic or metadata client, and of one that is
// wrapped, cannot be seen; only the UID and the answer show that it is wrong.
// Fakes give objects no UID and no resourceVersion, never refuse a condition,
// ignore dry runs and preconditions of Delete, and let patches of status change
// everything; [Ensure] needs three requests there to patch.
package patch
