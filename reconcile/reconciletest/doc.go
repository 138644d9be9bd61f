// Package reconciletest tests controllers against a simulated API server in virtual time: once without faults, and then
// again with a fault at every place where one can strike.
//
//	Case: Objects, Run, Workload, Always, Goal
//	  │
//	  ├─▶ the run without faults: calls 1…n, deliveries 1…m, the state at each rest
//	  │
//	  ├─▶ one run for each deviation ──▶ the same oracles for each
//	  │
//	  ├─▶ pairs of crash and slow watch, then other orders of everything by seed, until the budget is used up
//	  │
//	  └─▶ the first that fails, made smaller ──▶ trace, hint, token for Replay
//
// # A first case
//
// Run starts what main starts after it has read its flags, with the configuration of env,
// and returns when that has stopped. The workload has the steps of users:
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
// A finding says what was done, what is wrong, and how the program got there:
//
//	409 instead of call 6: the state differs from the run without faults, at the end …
//
// Its token plays this run again, with all logs if you like: see [Replay]. Mend the
// program, keep that test, and explore again: a case stops at its first finding, and
// [Options].Known passes over those that you cannot mend now.
//
// In continuous integration a case fails unless every single deviation was tried. If
// that takes too long for one machine, RECONCILETEST_SHARD divides the runs among
// several: see [Options].
//
// # What goes wrong
//
//   - A write: crash before, crash after, 429, 500, lost reply, late commit; a partition, a stop of the program, and
//     another client's write to the same object just before it; 409 of a create or a patch, as by a quota. From there
//     on the server refuses every call for half a minute.
//   - A read: 500, 410; another client's write just before it. Any call: it is slow, while the rest goes on.
//   - An event: its watch is held back, ends, expires; it comes twice.
//   - At rest: a restart, a restart in which the list of one resource comes late, a restart with caches that begin n
//     writes ago (time travel: an API server that lags behind), an hour in which nothing happens.
//   - The program is down for one or two steps of the workload; a step comes early.
//   - An actor, such as the garbage collector or a kubelet, is late by a minute.
//   - Each output is deleted, and a value of it that Case.Ignore does not name is edited ([Options].SkipDrift leaves
//     that out).
//
// # What a run has to show
//
//   - It comes to rest, stays at rest for half an hour, and then Goal holds. Always holds after every single write.
//   - At rest, after each step of the workload, the state is that of the run without faults. Identifiers, times and
//     generated names do not count, nor do Case.Ignore, Events, Leases, and what differs between two runs without
//     faults.
//   - At rest, a restart of the program writes nothing; with caches of the past, it deletes nothing that is wanted.
//   - A slow watch or call, or a read that fails, does not alone make it have more objects at once, or delete more,
//     than without; no fault multiplies its writes.
//   - A write that the server has put off, by 429 with Retry-After, is not repeated before its time.
//   - It watches what it writes and reads. It does not overwrite what other clients have written.
//   - It does not modify objects of a cache, and at rest a cache holds what the server has: informers of package
//     informer report modified objects by themselves, other caches are named to [Env.Cache].
//   - It makes no call that Case.Roles do not grant, and Case.Roles grant nothing that no run needs.
//   - With several replicas, only the one that took the Lease writes.
//   - Run returns within 30 seconds of the end of its context, and leaves no goroutine behind.
//   - A step of the workload that can be done without faults can be done: if not at once, then at the next rest.
//
// # Who else is there
//
// The garbage collector always, and Case.Actors: package actors has the kubelet that runs Pods and the controller of
// Deployments, and you can write an [Actor]. They are other clients: nothing of what they do is held against the
// program.
//
//	Actors: []reconciletest.Actor{actors.Kubelet(nil), actors.Deployments()},
//
// # What holds
//
//   - The client is a real one, over a simulated server whose answers are compared with the real one's; informers,
//     queues, back-off and leader election run unmodified. A run takes milliseconds.
//   - The same case gives the same runs, and the same seed the same trace, as far as the program is deterministic; two
//     runs without faults are compared, and the log shows where they differ. Workers of this module's queues begin
//     their reconciles one after the other, and keys back off without jitter, so that several workers change nothing.
//   - A crash takes effect on the server at once: nothing that this boot sends later has an effect. In the program the
//     call returns context.Canceled and the context ends.
//   - A run that hangs ends the test after a minute, with its token, and explains what it waits for, and where: a
//     socket, a file, a lock, a channel from outside of the run.
//
// # What it does not do
//
// All replicas have one clock. Caches of the past are those of a whole server: all resources at once. Calls for Leases
// and Events get no faults: a leader has to survive a partition. Sockets, files and processes are outside of
// virtual time. It needs *testing.T: in a Ginkgo suite, put it into a plain test function beside the specs.
//
// # Beside it
//
// Package live plays the same case on a real server, and kills the program after each write.
//
// Package fakes makes a fake clientset answer as a server does, for tests that keep one.
package reconciletest
