// Package leader lets one of several replicas work at a time, by a Lease of coordination.k8s.io/v1, and keeps a
// replica that may have lost the Lease from writing. A leadership is a context: work under it ends when the
// leadership does.
//
//	          Run                 taken                  ctx ended, or fn returned
//	(idle) ─────────▶ campaigning ─────────▶ leading ─────────────────▶ draining ──▶ released
//	                    ▲   ▲                │     │                     renewing       │
//	                    │   │ fn returned    │     │ another holds it, or               │
//	                    │   └── draining ◀───┘     │ deleted it: ErrLost                ▼
//	                    │       not renewing  no renewal within                    Run returns
//	                    └──────────────────   the deadline: ErrFenced
//
// # Contract
//
//   - fn's context is the leadership: it ends with a cause that wraps [ErrLost], [ErrFenced] or [ErrStopping].
//   - The Lease is released only after every function under it has returned. Until then it is renewed if the process is
//     stopping, so that a drain may take longer than a lease.
//   - A stop that cut off a request does not release the Lease, which expires: the request may still arrive. This
//     replica does not lead again, either, before it can no longer arrive.
//   - A lost leadership ends [Run] and [Elector.RunOnce], whose error wraps how it was lost. [Elector.Run] campaigns
//     again once fn has returned, and calls fn for each term.
//   - Several calls of [Elector.Run] share one Lease. The last to return releases it.
//   - Times that stand in the Lease are never compared with a local clock. A standby takes the Lease when its holder
//     has not renewed it for a lease duration since the standby first saw it so, by its own monotonic clock. Other
//     edits of the Lease do not prolong it.
//   - [Elector.Fence] makes clients that refuse to write outside the trust window.
//
// # Trust window
//
// A renewal that was sent at s and succeeded was seen by the others at s or later. So they take the Lease at
// s + LeaseDuration at the earliest, and the leader may write until
//
//	s + RenewDeadline,  where  RenewDeadline + RequestTimeout + drift < LeaseDuration
//	     10 s           +       3 s       + 0.3 s (2 %)  =  13.3 s < 15 s
//
// The window counts from the sending, not from the answer, so that a slow answer cannot stretch it. RequestTimeout is
// the room for a request that the client gave up at the very end and that the API server still works on; drift allows
// for two clocks whose speeds are wrong by 1 % each. The window is renewed every RetryPeriod, 2 s, so that after a
// failed renewal there is time for at least one more: RetryPeriod + RequestTimeout < RenewDeadline. [New] refuses
// options that break either rule.
//
//   - A fenced request gets a deadline at the end of the window, and so does the API server, by the timeout parameter.
//   - The clock is read when the request starts and again each time the transport takes bytes of its body.
//   - A followed log and a proxied request are answered within the window and end with the leadership.
//   - What switches protocols, such as exec, attach and portforward, is refused.
//
// A request that was cut off may still be under way, or the server may work on it until its timeout. It can no longer
// arrive after s + LeaseDuration, s being the last renewal before it. Until then the Lease keeps its holder. The same
// holds after an answer of 500 or above, which a proxy that gave up may have sent. A request that got no connection
// was not sent.
//
// The clock is CLOCK_MONOTONIC. It runs on while a process is stopped by SIGSTOP, a debugger or a starved cgroup, so
// that such a process finds its window closed. It stands still only while the whole machine is suspended:
//
//   - Fences believe the wall clock as well, if that says that more time has passed.
//
// # Failures
//
//   - The API server is away: the leader works until the window closes, then its context ends with [ErrFenced] and it
//     campaigns again.
//   - An answer is lost: the next renewal meets a conflict, finds its own name in the Lease and renews that.
//   - The process is paused for longer than the lease: another leads, and when it goes on its fence is closed at once.
//   - The process dies: the Lease expires, and another leads within LeaseDuration and 1.2 × RetryPeriod, 17.4 s.
//   - The process panics: the Lease is not released.
//   - fn does not return after a loss: writes are fenced, others lead, and [Elector.Healthy] fails after DrainTimeout.
//   - The release fails: the Lease expires.
//   - The Lease is deleted or taken by hand: the leader notices at its next renewal. A standby that watched it waits a
//     lease duration.
//   - Two replicas have one identity: each adds a random suffix, so that one of them leads. The other says so in
//     [Elector.Ready] and [Status].
//   - Permissions or the namespace are missing: [Elector.Ready] and [Status] name them.
//
// A standby that starts just when the Lease is deleted cannot know that it was held: do not delete Leases.
//
// # Use
//
// A controller of package reconcile takes an [Elector] as Options.Leader, and clients made from the fenced config.
// Package leader/shard lets all replicas work, each on its part of the keys, with the same trust window.
//
// A controller that owns its queue, as that of k8s.io/sample-controller, works for one term only: its Run shuts the
// queue down, and a second Run would hold the Lease and reconcile nothing, without an error. Under
// [Elector.RunOnce] the process ends with the leadership. Under [Elector.Run], fn makes a controller for each term.
//
// # What it does not do
//
// Client-side fencing leaves a gap of microseconds between the last reading of the clock and the socket, and cannot
// recall a request that a network delays for longer than LeaseDuration − RenewDeadline. The API server refuses such a
// request if it is told to, by a policy that package leader/fence makes. Without one, writes that are not idempotent
// carry a resourceVersion and a UID as preconditions, so that the API server refuses those that arrive too late.
// Effects outside Kubernetes are not fenced at all; they must end within LeaseDuration − RenewDeadline of the context.
package leader
