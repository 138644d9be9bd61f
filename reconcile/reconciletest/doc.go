// Package reconciletest tests controllers against a simulated API server in
// virtual time: first without faults, then again with a fault at every point
// where one can occur.
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
// An exploration passes through these steps:
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
// A finding shows which fault was injected, what went wrong, and how the
// program got there:
//
//	409 instead of call 6: the state differs from the run without faults, at the end …
//
// Its token replays this run, with all logs if you like: see [Replay]. Fix the
// program, keep the test, and explore again. An exploration stops at its first
// finding, and [Options].KnownFindings skips the findings that you cannot fix
// now.
//
// In continuous integration a case fails unless every single deviation was
// tried. If that takes too long on one machine, RECONCILETEST_SHARD divides the
// runs among several machines: see [Options].
//
// # What goes wrong
//
//   - At each write, the program crashes before or after it, the server answers
//     429 or 500, the reply is lost, or the commit is late. Just before the
//     write, a partition begins, the program is told to stop, or another client
//     writes to the same object. A create or a patch is answered with 409, as
//     by a quota. From the write on, the server refuses every call for half a
//     minute.
//   - From the first, the middle or the last write on, the server refuses every
//     call for half an hour, or answers 429 for three minutes, or 401 until a
//     restart, or every write is slow for five minutes.
//   - A read is answered with 500 or 410, or another client writes the object
//     just before it. Any call is slow while everything else continues.
//   - A get, a list or a deletion is answered with a 404 that is not about the
//     object.
//   - The program is told to stop at each call and each event, and whenever it
//     waits for time to pass.
//   - From a write to the end, every call in its namespace is answered with
//     403, or every write to its object with 422. From the start or the first
//     rest on, there is an object of a custom resource that Go cannot decode.
//   - At each event, its watch is delayed, ends or expires, or the event
//     arrives twice.
//   - At rest, the program restarts, or restarts while the list of one resource
//     is late, or restarts with caches that begin n writes ago, as if an API
//     server lagged behind. Or all processes sleep for an hour.
//   - At rest, the server is restored as it was before some of the program's
//     writes, and the program restarts.
//   - From the start, the clock of the server and of all other clients is 45
//     seconds ahead or behind, or two hours ahead. Of several replicas, one
//     also has a clock that differs by 45 seconds from all others.
//   - From the start, a webhook adds a label, fields, a container and a
//     variable to the objects that the program writes, or the server of an
//     aggregated API does not answer.
//   - At the first and the last rest, a custom resource is not served for five
//     minutes. At the end, its definition is deleted with all of its objects,
//     and created again with objects of the same names.
//   - The program is down for one or two steps of the workload, or a step
//     happens early.
//   - An actor, such as the garbage collector or a kubelet, is late by a
//     minute.
//   - Each object that the program did not make, of a resource that it watches
//     or reads, is edited, value by value, or deleted and created again, or
//     deleted while a finalizer of another client holds it.
//   - Each output is deleted, also while a finalizer of another client holds
//     it, and one of its values that Case.Ignore does not name is edited
//     (unless [Options].SkipDrift is set).
//
// # What a run has to show
//
//   - Without faults, the program writes something, or reaches its Goal, and
//     does not end up repeating an error. The server does not refuse the same
//     write again and again, either without faults or long after a fault. It
//     refuses no Event for what the Event contains: recorders drop such an
//     Event.
//   - The program comes to rest, stays at rest for half an hour, and then Goal
//     holds. Always holds after every single write.
//   - At rest, after each step of the workload, the state is the same as in the
//     run without faults. Identifiers, times and generated names may differ,
//     and so may the fields in Case.Ignore, Events, Leases, and everything that
//     differs between two runs without faults.
//   - A restart of the program at rest writes nothing. A restart with stale
//     caches deletes no object that is needed.
//   - The program reacts to a change of an object that it reads within an hour,
//     and not only after a restart. So an object that a reconcile looks up in a
//     cache needs a trigger that leads back to the key.
//   - A slow watch, a slow call or a failed read alone does not make the
//     program keep more objects at once, or delete more objects. No fault
//     multiplies its writes.
//   - An object or a namespace that the server refuses to the end, or an object
//     that Go cannot decode, stops only the work that belongs to it.
//   - An owner reference that the program writes leads to an object that exists
//     or existed.
//   - A request that the server has postponed, by 429 with Retry-After, is not
//     repeated early.
//   - The program watches the resources that it writes and reads. It does not
//     overwrite changes by other clients, or remove labels and annotations that
//     a step has added to its objects.
//   - From a cache of references, a reconcile reads only the keys that the
//     functions of reconcile.References return for its object.
//   - The program does not modify cached objects, and at rest its caches match
//     the server. Informers of package informer report modified objects by
//     themselves. Other caches must use [Env.Transform], and must
//     be registered with [Env.Cache].
//   - The program makes no call that Case.Roles do not grant, and Case.Roles
//     grant no right that it never needs.
//   - With several replicas, only the replica that took the Lease writes.
//   - Run returns within 30 seconds of the end of its context, and leaves no
//     goroutine and no write behind.
//   - A step of the workload that succeeds without faults succeeds with them:
//     at once, or at the next rest.
//
// # Other clients
//
// The garbage collector always runs, and so do Case.Actors. Package actors has
// a kubelet that runs Pods, and the controller of Deployments. You can also
// write an [Actor] yourself. The program is not blamed for what these clients
// do.
//
//	Actors: []reconciletest.Actor{actors.Kubelet(nil), actors.Deployments()},
//
// # What is real
//
//   - The client is a real one. It talks to a simulated server, whose answers
//     are compared with the answers of the real server. Informers, queues,
//     back-off and leader election run unmodified. A run takes milliseconds.
//   - As far as the program is deterministic, the same case leads to the same
//     runs, and the same seed to the same trace. Two runs without faults are
//     compared, and the log shows where they differ. Workers of this module's
//     queues begin their reconciles one after the other, and keys back off
//     without jitter, so runs stay the same with several workers.
//   - A crash takes effect on the server at once: requests that the crashed
//     boot sends later have no effect. In the program the call returns
//     context.Canceled and the context ends.
//   - A run that hangs ends the test after a minute. The failure has the token
//     of the run and says where the program waits, and whether it waits for a
//     socket, a file, a lock or a channel from outside the run.
//
// # What it does not do
//
// All clocks run at the same speed, and none is set while the program runs. If
// caches are stale, the caches of all resources are stale. Calls for
// Leases and Events get no faults, but a leader has to survive a partition.
// Sockets, files and processes are outside virtual time. An exploration needs a
// *testing.T: in a Ginkgo suite, put it into a plain test function beside the
// specs.
//
// # Related packages
//
// Package live plays the same case on a real server, and kills the program
// after each write.
//
// Package fakes makes a fake clientset answer like a server, for tests that
// keep using one.
package reconciletest
