// Package reconcile runs level-driven controllers: functions that look at what
// is and change what should not be so.
//
// Such a function is easy to write and easily called wrongly: before the cache
// is filled, twice at once for one object, on a cache that has not seen the
// function's own last write, not at all after somebody changed its output. This
// package calls it correctly.
//
//	informer ──key──▶ queue ──key──▶ worker ──Request──▶ Reconciler
//	   ▲                ▲                                    │
//	   │                └── key waits until seen ◀── writes ─┤
//	   └───────────────────── API server ◀───────────────────┘
//
// The contract:
//
//   - No turn starts before every informer of the controller has handed on its
//     first list.
//   - One turn at a time per key; as many keys at once as there are workers.
//   - Read your writes: the next turn of a key starts when the caches have seen
//     what the last one wrote. Package patch reports its writes by itself,
//     others are reported with [Wrote] and [Deleted]. A deadline bounds the wait.
//   - An error is retried with back-off, a panic too; a conflict is repeated
//     soon and quietly; a [Terminal] error waits for a change; an error with
//     [After] is retried after exactly that delay.
//   - With Options.Leader turns run while this replica leads, with Options.Shards
//     for the keys that are its part, and there from caches that have seen what
//     the replica before it wrote.
//   - A controller works on one cluster: a trigger of another is an error of [New],
//     as far as clients tell which server they talk to.
//   - The stop is graceful: intake, turns in flight, leadership, informers.
//   - A reconciler learns the key and the object, never the event. Logs carry
//     the causes of a turn.
//
// [Finalizer] and [LimitEvents] are what most controllers need besides.
//
// It does not filter events (a controller sees its own), does not elect a
// leader (package leader does), and writes nothing but finalizers: package patch
// does.
package reconcile
