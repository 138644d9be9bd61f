// Package clientgo connects informers with client-go's caches.
// [NewSharedIndexInformer] is client-go's constructor of shared informers with
// this module's cache behind it, for programs that stay on client-go or
// controller-runtime:
//
//	ctrl.Options{Cache: cache.Options{NewInformer: clientgo.NewSharedIndexInformer}}
//
// For programs that use both, [Wrap] turns a program's shared informer into an
// informer, and [Indexer] lets generated listers read an informer's cache.
//
//	cache.ListerWatcher ──NewSharedIndexInformer──▶ cache.SharedIndexInformer
//	your own shared informer ──Wrap──▶ informer.Informer ──Indexer──▶ cache.Indexer, listers
//
// The contract of shared informers:
//
//   - Handlers are called as client-go calls them: with the same old and new
//     states in the same order for each object, including tombstones and
//     resyncs.
//   - When a handler is called, the store and its indexes have the new state.
//   - Handlers do not wait for one another, and the watch does not wait for
//     them.
//   - A handler that is added later first gets every object that is stored, as
//     one of the initial list, and then every change.
//   - A second Run returns at once, a stopped informer takes neither handlers
//     nor indexers, and other wrong use gets client-go's errors.
//   - An informer that has stopped keeps its objects.
//   - Equal parts of objects are stored once.
//   - If the transport is wrapped with [ReuseSpecs], a spec that has not
//     changed is not decoded again. Handlers, transform functions, and wrappers
//     around a watch get whole objects. [DropManagedFields] is a transform
//     function with which specs are reused, too.
//   - An object that the ListerWatcher may retain, because it has not just been
//     received from a server, is copied.
//   - Objects that were modified in place are detected in tests, and logged
//     with their fields.
//   - A stalled watch is replaced.
//   - An answer that is not the API server's is not accepted as a list, even if
//     it reports success.
//   - An object for which the transform function or the function of an index
//     panics affects no other object, and is named in the log and by
//     [Informers].
//   - An object that the client cannot decode fails the whole list, as with
//     client-go, until it is corrected; [Informers] has the error, with the
//     field.
//
// Wrap and Indexer share objects with the underlying cache: do not modify the
// objects. They do not start or stop caches. The factory of a wrapped shared
// informer starts it.
//
// Costs: a wrapped informer holds a second index of the objects, and cannot
// read the server's resourceVersion. A lister allocates a slice for every list.
package clientgo
