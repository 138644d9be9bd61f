// Package cluster reaches one API server the way a controller should. It makes
// clients of the built-in kinds ([Cluster.Client]) and of one's own ([NewKind]),
// and the rest.Config from which all other clients are made: generated, dynamic,
// metadata and controller-runtime's.
//
//	rest.Config ──▶ cluster.New ──▶ Client, NewKind, Config ──▶ any client ──▶ writes are seen
//
// The contract:
//
//   - Every write is seen: what a client of that config writes with the context
//     of a reconcile is noted, before it is sent and when it is answered, and
//     package reconcile holds the key until its caches show it. The client need
//     not report anything. A write that no cache will show holds nothing up.
//   - Clients are not throttled on their side: the server has flow control.
//   - The client of built-in kinds speaks protobuf, those of one's own JSON.
//   - A kind that the server does not have under its name is named by Check, with
//     what the server has instead.
//   - Requests and answers are not changed. Watches, exec, logs and proxies are
//     passed through unread. So is all that is sent outside a reconcile.
//   - It may be combined with a leader's fence, in either order. A write that a
//     fence below refuses, before it is sent, is not waited for.
//
// An answer may get lost after the server has carried out the request. What
// came of such a write is not known, and neither is it after an answer with a
// status of 500 or more. The key then waits until the caches are as new as the
// server was after that. A request that the server carries out even later is
// not waited for.
//
// It does not retry, and does not cache.
package cluster
