// Package reconciletest tests controllers against a simulated API server in
// virtual time: first without faults, then again with a fault at every point
// where one can occur.
//
//	Case: Objects, Run, Workload, Always, Goal
//	  │
//	  ├─▶ the run without faults: calls 1…n, deliveries 1…m, the state at each rest
//	  │
//	  ├─▶ one run for each deviation ──▶ the same oracles for each
//	  │
//	  ├─▶ pairs of crash and slow watch, then random orders by seed, until the budget is used up
//	  │
//	  └─▶ the first that fails, shrunk ──▶ trace, hint, token for Replay
//
// # A first case
//
// Run starts everything that main starts after reading its flags, with the
// configuration of env, and returns when it has stopped. The workload lists the
// steps of users:
//
//	func TestExploreCopies(t *testing.T) {
//		reconciletest.Explore(t, &reconciletest.Case{
//			Objects: []runtime.Object{original},
//			Run: func(env *reconciletest.Env) error {
//				return run(env.Context(), env.Client())
//			},
//			Workload: []reconciletest.Step{
//				reconciletest.Patch("secrets", "default/original", `{"stringData":{"key":"new"}}`),
//				reconciletest.Delete("secrets", "default/original"),
//			},
//		}, nil)
//	}
//
// A finding shows which fault was injected, what went wrong, and how the
// program got there:
//
//	409 instead of call 6: the state differs from the run without faults, at the end …
//
// Its token replays this run, with all logs if you like: see [Replay]. Fix the
// program, keep that test, and explore again: a case stops at its first
// finding, and [Options].KnownFindings skips those that you cannot fix now.
//
// In continuous integration a case fails unless every single deviation was
// tried. If that takes too long on one machine, RECONCILETEST_SHARD divides the
// runs among several: see [Options].
//
// # What goes wrong
//
//   - A write: crash before, crash after, 429, 500, lost reply, late commit; a
//     partition, a stop of the program, or another client's write to the same
//     object just before it; 409 for a create or a patch, as from a quota. The
//     server refuses every call for half a minute from then on.
//   - A read: 500, 410, a 404 that is not about the object; another client's write just before it. Any call: it is
//     slow while everything else continues.
//   - From a write on, to the end: every call in its namespace is answered with
//     403, or every write to its object with 422.
//   - An event: its watch is delayed, ends or expires; it arrives twice.
//   - At rest: a restart, a restart in which the list of one resource is late,
//     a restart with caches that begin n writes ago (time travel: an API server
//     that lags behind), an hour without any event.
//   - The program is down for one or two steps of the workload; a step happens
//     early.
//   - An actor, such as the garbage collector or a kubelet, is late by a minute.
//   - Each object that the program did not make, of a resource that it watches
//     or reads, is edited, value by value, or deleted and created again.
//   - Each output is deleted, and one of its values that Case.Ignore does not
//     name is edited (unless [Options].SkipDrift is set).
//
// # What a run has to show
//
//   - Without faults it writes something, or reaches its Goal, and does not end
//     in errors. The server does not refuse the same write again and again.
//   - It comes to rest, stays at rest for half an hour, and then Goal holds.
//     Always holds after every single write.
//   - At rest, after each step of the workload, the state is that of the run
//     without faults. Identifiers, times and generated names do not count, nor
//     do Case.Ignore, Events, Leases, and differences between two runs without
//     faults.
//   - At rest, a restart of the program writes nothing; with stale caches, it
//     deletes nothing that is wanted.
//   - What follows from a change of an object that it reads happens within an
//     hour, and not only at a restart: what a reconcile looks up in a cache
//     needs a trigger that leads back to its key.
//   - A slow watch or call, or a failed read, does not by itself make it have
//     more objects at once, or delete more; no fault multiplies its writes.
//   - An object or a namespace that the server refuses to the end stops only
//     what belongs to it.
//   - A write that the server has postponed, by 429 with Retry-After, is not
//     repeated early.
//   - It watches what it writes and reads. It does not overwrite changes by
//     other clients.
//   - A reconcile reads in a cache of references only what the functions of
//     reconcile.References return for its object.
//   - It does not modify cached objects, and at rest its caches match the
//     server. Informers of package informer report modified objects themselves;
//     other caches are registered with [Env.Cache].
//   - It makes no call that Case.Roles do not grant, and Case.Roles grant
//     nothing that is never needed.
//   - With several replicas, only the one that took the Lease writes.
//   - Run returns within 30 seconds of the end of its context, and leaves no
//     goroutine behind.
//   - A step of the workload that succeeds without faults succeeds with them:
//     at once, or at the next rest.
//
// # Other clients
//
// The garbage collector always runs, and so do Case.Actors: package actors has
// the kubelet that runs Pods and the controller of Deployments, and you can
// write an [Actor] yourself. They are other clients: the program is not blamed
// for what they do.
//
//	Actors: []reconciletest.Actor{actors.Kubelet(nil), actors.Deployments()},
//
// # What holds
//
//   - The client is a real one, on a simulated server whose answers are
//     compared with the real server's; informers, queues, back-off and leader
//     election run unmodified. A run takes milliseconds.
//   - The same case gives the same runs, and the same seed the same trace, as
//     far as the program is deterministic; two runs without faults are
//     compared, and the log shows where they differ. Workers of this module's
//     queues begin their reconciles one after the other, and keys back off
//     without jitter, so runs stay the same with several workers.
//   - A crash takes effect on the server at once: requests that this boot sends
//     later have no effect. In the program the call returns context.Canceled
//     and the context ends.
//   - A run that hangs ends the test after a minute, with its token, and
//     reports what it is waiting for, and where: a socket, a file, a lock, a
//     channel from outside the run.
//
// # What it does not do
//
// All replicas share one clock. Stale caches are those of a whole server: all
// resources at once. Calls for Leases and Events get no faults, but a leader
// has to survive a partition. Sockets, files and processes are outside virtual
// time. It needs *testing.T: in a Ginkgo suite, put it into a plain test
// function beside the specs.
//
// # Beside it
//
// Package live plays the same case on a real server, and kills the program
// after each write.
//
// Package fakes makes a fake clientset answer like a server, for tests that
// keep one.
package reconciletest
