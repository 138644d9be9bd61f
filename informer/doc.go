// Package informer keeps a read-only copy of API objects of one kind in memory
// and delivers their changes to handlers:
//
//	pods := informer.ForNamespaces(clientset.CoreV1().Pods, nil)
//	go pods.Run(ctx)
//	...
//	if err := pods.WaitForSync(ctx); err != nil {
//		return err
//	}
//	pod, ok := pods.Get(types.NamespacedName{Namespace: "default", Name: "web"})
//
// A controller reads from the copy instead of sending requests, and never acts
// on an incomplete copy.
//
//	            list, watch                      in one step
//	API server ────────────▶ client-go Reflector ──────────▶ store ──▶ handlers
//	                                                           │      (put a key
//	                              Get, Snapshot ◀──────────────┘      into a queue)
//
// The contract:
//
//   - Get, Snapshot, Select, indexes and iteration copy nothing and allocate
//     nothing. They do not wait for the watch, nor does the watch wait for
//     them.
//   - Iteration is sorted by namespace and name. A snapshot does not change
//     with the cache.
//   - Equal parts of objects are stored once, unless Options.NoSharing is set,
//     and all fields are kept.
//   - Cached objects that were modified in place are detected, by default in
//     tests, and reported with their fields ([MutationError]).
//   - When a handler is called, Get already returns the new state.
//   - HasSynced is true once the first list has been stored and delivered to
//     every handler. WaitForSync, Status and the log say what it is waiting
//     for.
//   - An object that was deleted while the watch was down is delivered as
//     Deleted, once. A recreated object is first Deleted and then Added.
//   - A stalled watch, a list that does not end, and a request that gets no
//     answer are replaced. A server that cannot be reached is logged within two
//     seconds, with the cause.
//   - A watch that delivers nothing and outlives its timeout proves nothing:
//     all objects are listed again, and a second such watch in a row is named.
//   - When a watch broke off, a server that was restored to an earlier state is
//     detected, and all objects are listed again.
//   - A cache that is late, incomplete or no longer running proves no deletion
//     ([Informer.IsDeleted]). Many deletions are confirmed by one request.
//   - An answer that is not the API server's, such as the {} of a gateway, is
//     not accepted as a list, even if it reports success.
//   - If it is not known which namespaces a client reads, an object is not
//     taken for deleted in a namespace from which the client has returned no
//     object.
//   - An object that Go cannot decode, or for which Options.Transform or an
//     index panics, affects no other object. It proves no deletion, is named in
//     Status.Problems with the field, and heals when it is changed or deleted
//     ([Informer.Unreadable]).
//   - [Referenced] caches only the objects that others refer to, and lists and
//     watches each by its name. A referenced object that cannot be read does
//     not affect the others.
//   - Calls of Run may overlap: the first one starts the watch, and the last
//     one to end stops it.
//   - It works with client-go's fake clients, and in testing/synctest.
//
// Objects are shared by all readers; do not modify them. An unchanged spec is
// not decoded again, see Status.FullDecode.
//
// An informer can read with these clients: generated clients, also those made
// with package gentype ([For]); a client for each of a changing set of
// namespaces ([ForNamespaces]); clients for kinds without Go types or for
// metadata only ([Untyped]); client-go's shared informers (package clientgo).
// Generated clients for built-in kinds use protobuf unless their rest.Config
// specifies JSON.
//
// Clients of package cluster decode objects one by one from the start. Clients
// of client-go and its generators do so once an object cannot be decoded. All
// other clients decode whole lists, because they may do more than send a
// request, or hide how they send it. With such a client, one object that cannot
// be decoded stops its whole kind, and Status reports it. It cannot be skipped,
// because a list that cannot be decoded has no token for the next page either.
//
// A request cannot be replaced while something in the program holds it and
// ignores its context, as client-go does until the credential plugin of a
// kubeconfig has returned. After a minute, Status.Problems has such a request.
//
// The package does not resync, because package reconcile does, and does not
// write or copy objects.
package informer
