// Package informer keeps a read-only copy of API objects of one kind in memory and
// delivers their changes to handlers. A controller reads from it instead of sending
// requests, and never acts on a copy that is not complete yet.
//
//	            list, watch                      in one step
//	API server ────────────▶ client-go Reflector ──────────▶ store ──▶ handlers
//	                                                           │      (put a key
//	                              Get, Snapshot ◀──────────────┘      into a queue)
//
// The contract:
//
//   - Get, Snapshot, Select, indexes and iteration copy nothing and allocate nothing.
//     They do not wait for the watch, nor does the watch wait for them.
//   - Iteration is sorted by namespace and name. A snapshot stays as it is while the
//     cache changes.
//   - Equal parts of objects are stored once, unless Options.NoSharing is set, and
//     nothing is dropped.
//   - Cached objects that were modified in place are found, in tests by default, and
//     reported with the fields ([MutationError]).
//   - When a handler is called, Get returns the new state already.
//   - HasSynced is true once the first list has been stored and delivered to every
//     handler. WaitForSync, Status and the log say what it waits for.
//   - An object that was deleted while the watch was down is delivered as Deleted,
//     once. A recreated object is first Deleted and then Added.
//   - A watch that has stalled, a streaming list without an end, and a request without
//     an answer are replaced. A server that cannot be reached is in the log within two
//     seconds, with the cause.
//   - A cache that is late, incomplete or no longer running proves no deletion
//     ([Informer.IsDeleted]). Many deletions are confirmed by one request.
//   - Calls of Run may overlap: the first one starts the watch, and the last one to
//     end stops it.
//   - It works with client-go's fake clients, and in testing/synctest.
//
// Objects are shared by all readers; do not modify them. A spec that has not changed
// is not decoded again, see Status.FullDecode.
//
// Objects come from generated clients ([For]), of several namespaces that may change
// ([ForNamespaces]), from clients of kinds without Go types and of metadata alone
// ([Untyped]), from typed clients made with client-go's package gentype, and from
// shared informers of client-go (package clientgo). Generated clients of built-in
// kinds use protobuf unless their rest.Config says otherwise.
//
// It does not resync (see package reconcile), write, copy objects.
package informer
