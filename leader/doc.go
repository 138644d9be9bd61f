// Package leader lets one of several replicas work at a time, and keeps a
// replica that may no longer lead from writing:
//
//	elector, err := leader.New(leader.Lease{Client: leases, Namespace: "shop", Name: "shop", Identity: pod}, nil)
//	...
//	client, err := kubernetes.NewForConfig(elector.Fence(config))
//	...
//	err = elector.Run(ctx, func(ctx context.Context) error { return work(ctx, client) })
//
// The replica that leads is the holder of a Lease of coordination.k8s.io/v1. A
// leadership is a context: work under it ends when the leadership does.
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
//   - fn's context is the leadership: it ends with a cause that wraps
//     [ErrLost], [ErrFenced] or [ErrStopping].
//   - The Lease is released only after every function under it has returned.
//     Until then it is renewed if the process is stopping, so that a drain may
//     take longer than a lease.
//   - A stop that cut off a request leaves the Lease to expire, because the
//     request may still arrive. Until the request can no longer arrive, this
//     replica does not lead again either.
//   - A lost leadership ends [Run] and [Elector.RunOnce], and their error wraps
//     the cause. [Elector.Run] campaigns again once fn has returned, and calls
//     fn for each term.
//   - Several calls of [Elector.Run] share one Lease. The last to return
//     releases it.
//   - Times in the Lease are never compared with a local clock. A standby takes
//     the Lease when its holder has not renewed it for a lease duration,
//     counted from when the standby first saw the last renewal, by its own
//     monotonic clock. Other edits of the Lease do not prolong it.
//   - [Elector.Fence] makes clients that refuse to write outside the trust
//     window.
//
// # Trust window
//
// A successful renewal that was sent at time s was seen by the other replicas
// at s or later. So they take the Lease at s + LeaseDuration at the earliest,
// and the leader may write until
//
//	s + RenewDeadline,  where  RenewDeadline + RequestTimeout + drift < LeaseDuration
//	     10 s           +       3 s       + 0.3 s (2 %)  =  13.3 s < 15 s
//
// The window starts when the request is sent, not when the answer arrives, so
// that a slow answer cannot stretch it. RequestTimeout leaves room for a
// request that the client gave up on at the very end and that the API server is
// still processing; drift allows for two clocks whose rates are off by 1 %
// each. The window is renewed every RetryPeriod, 2 s, so that after a failed
// renewal there is time for at least one more: RetryPeriod + RequestTimeout <
// RenewDeadline. [New] refuses options that break either rule.
//
// How long a renewal may take does not change these sums, since the window
// starts when it is sent. In detail:
//
//   - A renewal may use all that is left of the window.
//
//   - An answer that takes less than half of RenewDeadline is in time to take
//     the Lease and to keep it.
//
//   - After RequestTimeout without an answer to a write, the Lease is read: if
//     it has the change, the write has succeeded, and otherwise the change is
//     sent again.
//
//   - A fenced request gets a deadline at the end of the window, in the client
//     and, by the timeout parameter, in the API server.
//
//   - The clock is read when the request starts and again each time the
//     transport takes bytes of its body.
//
//   - A followed log and a proxied request are answered within the window and
//     end with the leadership.
//
//   - Requests that switch protocols, such as exec, attach and portforward, are
//     refused.
//
// A request that was cut off may still be in flight, or the server may work on
// it until its timeout. It can no longer arrive after s + LeaseDuration, where
// s is the last renewal before it. Until then the Lease keeps its holder. The
// same applies after an answer of 500 or above, because it may be from a proxy
// that gave up. A request that got no connection was not sent.
//
// The clock is CLOCK_MONOTONIC. It keeps running while a process is stopped by
// SIGSTOP, a debugger or a starved cgroup, so that such a process finds its
// window closed. It stops only while the whole machine is suspended:
//
//   - Fences also read the wall clock, and use it if more time has passed by
//     the wall clock.
//
// # Failures
//
//   - The API server is unreachable: the leader works until the window closes,
//     then its context ends with [ErrFenced] and it campaigns again.
//   - An answer is lost: the next renewal meets a conflict, finds its own name
//     in the Lease and renews the Lease.
//   - A proxy or gateway answers in the server's place: its answer is not a
//     renewal, whatever its status.
//   - Answers come too late to lead: the replica leaves the Lease to the others
//     for a lease duration.
//   - A connection stops working: clients of [Client] send the request again on
//     a second one, and close the first.
//   - An API server fails, but keeps its connections: after half a minute
//     without a success, clients of [Client] use a new connection, which may
//     lead to another API server.
//   - The process is paused for longer than the lease: another replica leads,
//     and when the process resumes its fence is already closed.
//   - The process dies: the Lease expires, and another replica leads within
//     LeaseDuration + 1.2 × RetryPeriod, 17.4 s.
//   - The process panics: the Lease is not released.
//   - fn does not return after a loss: writes are fenced, others lead, and
//     [Elector.Healthy] fails after DrainTimeout.
//   - The release fails: the Lease expires.
//   - The Lease is deleted or taken by hand: the leader notices at its next
//     renewal. A standby that watched the Lease waits for a lease duration.
//   - Two replicas have the same identity: each adds a random suffix, so that
//     only one of them leads. The other reports it in [Elector.Ready] and
//     [Status].
//   - A client that is not a replica holds the Lease: no replica leads. The
//     replicas stay ready, and [Elector.Warning] names the holder and a way
//     out.
//   - Permissions or the namespace are missing: [Elector.Ready] and [Status]
//     name them.
//
// A standby that starts just as the Lease is deleted cannot know that it was
// held: do not delete Leases.
//
// # Use
//
// A controller of package reconcile takes an [Elector] as Options.Leader, and
// clients made from the fenced config. Package leader/shard lets all replicas
// work, each on its share of the keys, with the same trust window.
//
// A controller that owns its queue, like k8s.io/sample-controller, works for
// one term only: its Run shuts the queue down, and a second Run would hold the
// Lease and reconcile nothing, without an error. Under [Elector.RunOnce] the
// process ends with the leadership. Under [Elector.Run], fn makes a controller
// for each term.
//
// # What it does not do
//
// Client-side fencing leaves a gap of microseconds between the last look at the
// clock and the socket, and cannot recall a request that the network delays for
// longer than LeaseDuration − RenewDeadline. The API server refuses such a
// request under a policy that package leader/fence makes. Without one, give
// writes that are not idempotent a resourceVersion and a UID as preconditions,
// so that the API server refuses those that arrive too late. Effects outside
// Kubernetes are not fenced at all; they must end within LeaseDuration −
// RenewDeadline of the end of the context.
package leader
