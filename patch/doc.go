// Package patch writes edits of cached objects. It sends what the edit changed
// and no other field, and it sends no request when the edit changed nothing:
//
//	newest, err := patch.Merge(ctx, clientset.CoreV1().Pods, pod, nil, func(edit *corev1.Pod) {
//		edit.Labels["app"] = "shop"
//	})
//
// An update, in contrast, sends the whole object. It undoes changes that its
// author does not know about: changes made since the read, and fields that a
// newer server has but the program's Go type lacks. A patch has neither
// problem, but is usually slow to compute, and gives up the lock that an update
// has; see [Options].Lock.
//
//	cached ──deep copy──▶ edit ──▶ compare ──┬─ equal ─────▶ no request, cached
//	  (shared, read only)                    └─ different ─▶ PATCH ──▶ answer
//	                                                ▲          │
//	                                           Options.Lock    └──▶ the reconcile's record
//
// The functions and types:
//
//	Merge      edits an object
//	Status     edits its status subresource
//	Ensure     edits an object, and creates it if it does not exist
//	Delete     deletes exactly the object that was read
//	Applier    applies configurations server-side, and remembers them
//	Finalizer  cleans up outside the cluster before an object is deleted
//	children   a package that manages all objects that one owner owns
//
// Functions do not take a client but a function that returns the client of a
// namespace, such as clientset.CoreV1().Pods; see [Client] and [ClusterScoped].
// After a write, the reconcile's key is held until the caches show it. A write
// that is refused because the object has changed is not a failure: return the
// error, and the next reconcile sees the newest object.
//
// The contract:
//
//   - The cached object is never written to.
//   - An edit gets a deep copy, which it may retain.
//   - Go types of k8s.io/api get a strategic merge patch: lists are merged by
//     key, so changes by other clients survive in them.
//   - All other types get a JSON merge patch (RFC 7386).
//   - An edit of any other list is sent as a JSON patch (RFC 6902) of the
//     elements that it changed, locked by the resourceVersion.
//   - What the Go type or a Transform hides from the program survives, also in
//     the elements of lists.
//   - An edit that could lose hidden values is refused by the server, and the
//     error names the field.
//   - A map of labels or annotations, and a list that is merged by key, is
//     emptied entry by entry: entries that other clients have added since the
//     read stay.
//   - No write reaches a different object: it goes to the client of the cached
//     object's namespace, and the UID is a precondition, so that a recreated
//     object is refused too.
//   - An answer about a different object is an error that names both.
//   - Where servers ignore the UID, in the status and scale of custom kinds,
//     the resourceVersion is locked.
//   - The status of a custom kind with a Go type records the observed
//     generation, and so do the conditions in status.conditions that an edit
//     sets.
//   - Other writes of the cached object are locked only with [Options].Lock.
//   - A failed precondition satisfies [IsStale].
//   - Only the server's own answer about this object is taken for its deletion,
//     not any status 404.
//   - An answer that does not name the object, such as the {} of a gateway, is
//     an error with any status.
//   - Every edit and every configuration is sent with a field manager.
//   - Every write is reported to the reconcile whose context it is given,
//     except for dry runs.
//   - A mistake that can be seen before any request is an error that names it.
//
// An object keeps only the fields of the version in which it is written. If a
// CustomResourceDefinition serves several versions without a conversion
// webhook, each write in an older version makes the server drop the fields that
// only a newer version has, even if the write only sets a label. So use the
// version that the server stores.
//
// A null in raw JSON, such as a runtime.RawExtension, is a value: for example,
// Helm removes a default of a chart whose value is set to null. The package
// stores such a null with a JSON patch, locked by the resourceVersion. It
// cannot store a null that an unstructured object contains: a null in a merge
// patch removes the member.
//
// The package does not retry. It reads objects from the server only where an
// answer leaves no choice: in Ensure, if the cache was wrong; after a write of
// a subresource that was not found; and after a list could not be patched.
//
// Generated, gentype, dynamic and metadata clients work, and so do fake
// clientsets. The namespace of a client that is written by hand cannot be
// checked before the request; only the UID and the answer show that it is
// wrong. Fakes give objects no UID and no resourceVersion, never enforce
// preconditions, ignore dry runs, and let patches of the status change every
// field. With them, [Ensure] needs three requests to patch.
package patch
