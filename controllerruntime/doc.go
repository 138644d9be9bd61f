// Package controllerruntime is for operators that stay on controller-runtime.
// [NewCache] puts this module's cache behind a manager, and caches kinds such
// as Secrets on demand: only the objects that reconcilers read.
//
//	ctrl.Options{NewCache: controllerruntime.NewCache(&controllerruntime.Options{
//		OnDemand: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}},
//	})}
//
// Reconcilers, watches, predicates and clients do not change. For all other
// kinds the cache is controller-runtime's own, around the informers of package
// informer/clientgo.
//
//	Get of a Secret ──▶ is it held? ──no──▶ list and watch it by its name
//	                        │yes                      │
//	                        └────────▶ answer from memory ──▶ Watches, Owns
//
// The contract of a kind that is cached on demand:
//
//   - The first Get of an object reads it from the server, and from then on it
//     is watched by its name.
//   - An object that was read is answered from memory, without a request.
//   - The verbs list and watch on the names that are read are enough.
//   - An object that the server does not have is watched, too.
//   - If reading an object is forbidden, only Gets of that object fail, until
//     reading it is allowed.
//   - Get returns NotFound only if the server's list lacks the object; a status
//     404 alone does not prove that.
//   - An object that has not been read for Options.Keep is dropped.
//   - While a controller watches the kind, an object that was read stays cached
//     as long as it exists.
//   - Handlers get the events of the objects that were read, but no deletion of
//     an object that is only dropped.
//   - A handler that is added later first gets the objects that are cached.
//   - A Get sees what the manager's client wrote before it.
//   - The client's EnableReadYourWritesConsistency does not wait for objects
//     that were never read.
//   - List asks the server, within the namespaces and selectors of the cache's
//     options.
//   - List refuses to answer if Options.RefuseLists is set.
//   - A field index works for List, by a function that is applied to what the
//     server has sent.
//   - Transforms, namespaces and selectors of the cache's options are applied.
//   - Objects are copied for each Get, unless UnsafeDisableDeepCopy is set.
//   - Typed, unstructured and metadata-only objects of the kind are separate,
//     as in controller-runtime's own cache.
//
// Five other parts can be used without this cache: [SeeOwnWrites] holds a key
// until the cache has seen the writes of its last reconcile, [Queues] puts
// package queue behind a controller, [NewManager] gives a manager the election
// and the fence of package leader, [Page] shows a manager's caches and failing
// keys, and package crpatch writes through package patch. They promise:
//
//   - The next reconcile of a key sees in the cache what the last one wrote.
//   - A creation that is undone in the same reconcile does not hold the key.
//   - If the answer to a write was lost, the server is asked for the outcome.
//   - Writes to other kinds, refused writes and dry runs hold nothing.
//   - A key is held for ten seconds at most.
//   - A manager is refused if its config was not made by ObserveWrites.
//   - A controller runs on the queue as it does on its own queue, with the
//     delays of its limiter.
//   - A manager that has lost its leadership writes nothing, and ends with an
//     error.
//   - A manager that stops keeps its Lease until its controllers have drained.
//   - A standby writes nothing and, with NewCache, has full caches.
//   - With NewCache, the controllers of a new leader start on caches that have
//     what the previous leader wrote.
//   - Runnables that need no election run in every replica.
//   - A page names caches that have not synced, and keys whose last reconcile
//     has failed.
//   - A page names at most ten keys of a controller, and how many more there
//     are.
//
// The options of the manager's cache for other kinds work as they do without
// NewCache. ReaderFailOnMissingInformer concerns other kinds only: naming a
// kind in OnDemand is what makes it cached.
//
// Costs: each object has a watch of its own, until one namespace has a hundred
// of them; see [informer.Referenced]. The objects of each List are decoded
// again. With SeeOwnWrites, a worker waits while the key that it has reconciled
// is held. It does not wait for the deletion of a whole collection.
package controllerruntime
