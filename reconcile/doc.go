// Package reconcile runs level-driven controllers: functions that compare the
// actual with the desired state of an object and change what differs.
//
// Such a function is easy to write and easy to call wrongly: before the cache
// is filled, twice at once for one object, on a cache that has not seen the
// function's own last write, not at all after another client changed its output. This
// package calls it correctly.
//
//	informer ──key──▶ queue ──key──▶ worker ──Request──▶ Reconciler
//	   ▲                ▲                                    │
//	   │                └── key waits until seen ◀── writes ─┤
//	   └───────────────────── API server ◀───────────────────┘
//
// The contract:
//
//   - No reconcile starts before every informer of the controller has delivered
//     its first list.
//   - One reconcile at a time per key; as many keys at once as there are workers.
//   - Read your writes: the next reconcile of a key starts when the caches have
//     seen what the last one wrote. A deadline bounds the wait.
//   - An attempt after which nothing observed has changed doubles the key's
//     delay, whatever its kind: error, panic, conflict, [After] of zero or less. The
//     first three conflicts in a row are repeated soon and quietly. One that stays
//     is a failure, and so is a conflict with another field manager at once.
//   - A [Terminal] error waits for a change, and an error with [After] is retried
//     after exactly that delay, whatever they wrap.
//   - A key that writes the same again and again is slowed down and named, never
//     dropped. An isolated edit of another client is repaired at once.
//   - A key's fault stays its own: a panic, runtime.Goexit, or an error that cannot
//     be printed costs neither a worker nor another key. A call that ignores its
//     context is logged with its stack, counted and shown.
//   - With Options.Leader reconciles run while this replica leads, with
//     Options.Shards for the keys of its shards. A new leader, and the new owner of
//     a shard, begin on caches that have seen what the replica before wrote. A
//     minute bounds that wait.
//   - A controller works on one cluster: a trigger of another is an error of [New],
//     as far as clients tell which server they talk to.
//   - The stop is graceful: no new keys, then the end of the reconciles in flight,
//     then that of the informers. What ignores it is named by the error of Run, and
//     keeps the leadership until it ends.
//   - Keys from outside the cluster come through [External], with back-pressure.
//   - A reconciler learns the key and the object, never the event. Logs carry
//     the causes of a reconcile. Without a logger in the context they go to klog's.
//
// Clients made from the config of package cluster report what they write, and so
// does package patch; writes of other clients, such as fakes, are reported with
// [Wrote] and [Deleted]. If the answer to a write was lost, the next reconcile
// starts when the caches are as new as the server was after that. Most controllers
// also need patch.Finalizer.
//
// It does not filter events (a controller sees its own), does not elect a
// leader (package leader does), and does not write: package patch
// does.
package reconcile
