// Package reconciletest is for the unit tests of controllers: it runs them against a simulated API server in virtual
// time, once without faults, and then again with a fault at every place where one can strike.
//
//	Case: Objects, Run, Workload, Always, Goal
//	  │
//	  ├─▶ the run without faults: calls 1…n, deliveries 1…m, the state at the end
//	  │
//	  ├─▶ one run for each: crash before, crash after, 409, 429, 500, lost reply, late commit of each write;
//	  │   a partition at each write; 500 and 410 of each read; each watch held back, dropped, expired at each event;
//	  │   each output deleted; the workload earlier ──▶ the same oracles for each
//	  │
//	  └─▶ pairs of crash and slow watch, until the budget is used up ──▶ trace, hint, token for Replay
//
// # What a run has to show
//
//   - It comes to rest, and then Goal holds. Always holds after every single write.
//   - At rest, after each step of the workload, the state is that of the run without faults. Identifiers, times and
//     generated names do not count, nor do Case.Ignore, Events, Leases, and what differs between two runs without
//     faults.
//   - Once all is done, a restart of the program writes nothing.
//   - A slow watch alone does not make it have more objects at once, or delete more, than without.
//   - What it writes, it watches.
//   - With several replicas, only the one that took the Lease writes.
//   - Run returns when its context has ended, and leaves no goroutine behind.
//
// # What holds
//
//   - The client is a real one, over a simulated server that is held against the real one's answers; informers, queues,
//     back-off and leader election run unmodified. A run takes milliseconds.
//   - The same case gives the same runs, as far as the program is deterministic; two runs without faults are compared,
//     and the log says where they differ.
//   - A crash takes effect on the server at once: nothing that this boot sends later has an effect. In the program the
//     call returns context.Canceled and the context ends.
//
// # What it does not do
//
// It does not disturb clocks, does not show the program an API server of the past, and does not look into caches.
// Faults of calls for Leases and Events are left out: a partition is what a leader has to survive. Sockets, files and
// processes are outside of virtual time: a Run that waits for one hangs, and the test ends with all goroutines after
// a minute. It needs *testing.T: in a Ginkgo suite, put it into a plain test function beside the specs.
package reconciletest
