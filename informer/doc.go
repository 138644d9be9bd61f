// Package informer keeps a read-only copy of API objects of one kind in memory
// and tells what changes. A controller reads from it instead of asking the
// server, and never works on a copy that is not complete yet.
//
//	            list, watch                      in one step
//	API server ────────────▶ client-go Reflector ──────────▶ store ──▶ handlers
//	                                                           │      (put a key
//	                              Get, Snapshot ◀──────────────┘      into a queue)
//
// The contract:
//
//   - Objects are shared and read-only. Get, Snapshot, Select, indexes and
//     iteration copy nothing, allocate nothing and never wait for the watch.
//     Iteration is in the order of namespace and name.
//   - Equal parts of objects are stored once (Options.NoSharing), and a spec that
//     has not changed is not even decoded. Nothing is dropped.
//   - Objects that somebody edits in place are found, in tests by default, and
//     named with the fields ([MutationError]).
//   - When a handler is called, Get already returns the new state.
//   - HasSynced is true once the first list has been stored and every handler
//     has heard of it. What it waits for is said by WaitForSync, Status and the
//     log.
//   - Nothing is lost: what vanished while the watch was down is handed on as
//     Deleted, once; an object that took the name of another is first Deleted
//     and then Added.
//   - A watch that brings nothing any more, a streaming list without an end, and
//     a request without an answer are noticed and replaced. A server that cannot
//     be reached is in the log within two seconds, with the cause.
//   - Run may be called by many at once. The first call starts the watch, the
//     last one to end stops it and every goroutine.
//   - It works with client-go's fake clients, and in testing/synctest.
//
// Where objects come from: generated clients ([For]), several namespaces, which
// may change ([ForNamespaces]), kinds without Go types and metadata alone
// ([Untyped]), typed clients made with client-go's gentype package, and shared
// informers that a program has already ([Wrap]). Generated clients of built-in
// kinds speak protobuf unless their rest.Config says otherwise.
//
// What it does not do: resync (see package reconcile), write, copy objects.
package informer
