// Package reconcile runs level-driven controllers: functions that compare the
// actual state of an object with the desired one and change what differs.
//
//	sites := informer.ForNamespaces(websites.In, nil)
//	controller, err := reconcile.New("website", sites, &reconciler{}, &reconcile.Options{
//		Triggers: []reconcile.Trigger{reconcile.Owned(deployments)},
//	})
//	...
//	err = controller.Run(ctx)
//
// Such a function is easy to write and easy to call wrongly: before the cache
// is filled, twice at once for one object, on a cache that has not seen the
// function's own last write, or not at all after another client changed its
// output. This package calls it correctly.
//
//	informer ──key──▶ queue ──key──▶ worker ──Request──▶ Reconciler
//	   ▲                ▲                                    │
//	   │                └── key waits until seen ◀── writes ─┤
//	   └───────────────────── API server ◀───────────────────┘
//
// The contract:
//
//   - No reconcile starts before every informer of the controller has delivered
//     its first list. If namespaces are independent (informer.Options), the
//     list of the key's namespace is enough.
//   - An optional controller waits for its caches without keeping the process
//     from being ready, and starts by itself when its kind is installed or its
//     cluster answers.
//   - An object that an informer does not read, or whose namespace has not been
//     listed, is not taken for deleted: its key is not reconciled.
//   - One reconcile at a time per key, and as many keys at once as there are
//     workers.
//   - Read your writes: the next reconcile of a key starts when the caches have
//     seen what the last one wrote. A deadline bounds the wait.
//   - An attempt after which nothing observed has changed doubles the key's
//     delay, however it ended: error, panic, conflict, [After] of less than 50
//     ms. The first three conflicts in a row are retried soon and quietly. A
//     persistent conflict counts as a failure, and a conflict with another
//     field manager counts as a failure at once.
//   - A key that fails with a [Terminal] error waits for a change, and a key
//     that fails with [After] is retried after exactly that delay, even if the
//     error wraps others. A Terminal error that is joined with another error is
//     retried.
//   - A key that makes the same write again and again is reported, and its
//     reaction to changes of that object is slowed down, to once a minute at
//     most. Every other cause reconciles it at once. An isolated edit by
//     another client is repaired at once.
//   - One key's failure affects no other: a panic, runtime.Goexit, or an error
//     that cannot be printed costs neither a worker nor another key. A call
//     that ignores its context is logged with its stack, counted and shown.
//   - If there are several workers, at most half of them reconcile keys whose
//     last reconcile failed after more than ten seconds, or had not ended at its
//     timeout. Such keys wait in turn, and one with a change since then does not
//     wait for all keys without one.
//   - A key whose object cannot be read, because Go cannot decode it, fails
//     with an error that names the field, until the object is changed. Its
//     reconciler is not called meanwhile: such an object is not deleted.
//   - A key is reconciled only once it is known, for each object that its own
//     object refers to, whether that object exists ([References]). If an object
//     cannot be read, only the keys that refer to it fail.
//   - With Options.Leader reconciles run only while this replica leads, with
//     Options.Shards only for the keys of its shards. A new leader, and the new
//     owner of a shard, start with caches that have seen the previous replica's
//     writes. A minute bounds that wait.
//   - A controller works on one cluster: a trigger from another cluster is an
//     error of [New], as far as clients reveal which server they talk to.
//   - The stop is graceful: no new keys, then the reconciles in flight end,
//     then the informers. A call that ignores the stop is named in the error of
//     Run, and keeps the leadership until the call ends.
//   - Keys from outside the cluster come through [External], with
//     back-pressure.
//   - A reconciler gets the key and the object, never the event. Logs carry the
//     causes of a reconcile. Without a logger in the context, they go to the
//     logger of klog.
//
// Clients made from the config of package cluster report their writes, and so
// does package patch; report writes of other clients, such as fakes, with
// [Wrote] and [Deleted]. If the answer to a write was lost, the next reconcile
// starts when the caches are as new as the server was after the loss. Most
// controllers also need patch.Finalizer.
//
// The package does not filter events: a controller sees the events of its own
// writes. It does not elect a leader, which package leader does, and it does
// not write, which package patch does.
package reconcile
