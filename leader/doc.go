// Package leader lets one of several replicas work at a time, by a Lease of coordination.k8s.io/v1, and keeps a replica
// that may have lost the Lease from writing. A leadership is a context: work under it ends when the leadership does.
//
//	          Run                 taken                  ctx ended, or fn returned
//	(idle) ─────────▶ campaigning ─────────▶ leading ─────────────────▶ draining ──▶ released
//	                    ▲   ▲                │     │                     renewing       │
//	                    │   │ fn returned    │     │ another holds it, or               │
//	                    │   └── draining ◀───┘     │ it is gone: ErrLost                ▼
//	                    │       not renewing  no renewal within                    Run returns
//	                    └──────────────────   the deadline: ErrFenced
//
// # Contract
//
//   - fn's context is the leadership. Its cause wraps [ErrLost], [ErrFenced] or [ErrStopping].
//   - The Lease is released only after every function under it has returned. Until then it is renewed if the process is
//     stopping, so that a drain may take longer than a lease.
//   - A lost leadership does not end the process: once fn has returned, the replica campaigns again.
//   - Several calls of [Elector.Run] share one Lease. The last to return releases it.
//   - Times that stand in the Lease are never compared with a local clock. A standby takes the Lease when it has not
//     changed for a lease duration since the standby first saw it so, by its own monotonic clock.
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
// the room for a request that the client has given up at the very end and that the API server still works on; drift is
// for two clocks whose speeds differ by 1 % each. The window is renewed every RetryPeriod, 2 s, so that after a last
// good renewal there is time for at least one more try: RetryPeriod + RequestTimeout < RenewDeadline. [New] refuses
// options that break either rule.
//
// A fenced request gets a deadline at the end of the window, and so does the API server, by the timeout parameter. The
// clock is read when the request starts and again each time the transport takes bytes of its body.
//
// The clock is CLOCK_MONOTONIC. It runs on while a process is stopped by SIGSTOP, a debugger or a starved cgroup, so
// that such a process finds its window closed. It stands still only while the whole machine is suspended; fences
// therefore believe the wall clock as well, if that says that more time has passed.
//
// # Failures
//
//   - The API server is away: the leader works until the window closes, then its context ends with [ErrFenced]. Nobody
//     else can take the Lease either. It campaigns again at once.
//   - An answer is lost: the next renewal meets a conflict, finds its own name in the Lease and renews that.
//   - The process is paused for longer than the lease: another leads. When it goes on, its fence is closed before any
//     code runs, and its context ends.
//   - The process dies: the Lease expires. The others wait LeaseDuration and up to 1.2 × RetryPeriod, 17.4 s.
//   - The process panics: the Lease is not released, because nobody knows what still runs.
//   - fn does not return after a loss: writes are fenced, others lead, and [Elector.Healthy] fails after DrainTimeout.
//   - The release fails: the Lease expires.
//   - The Lease is deleted or taken by hand: the leader notices at its next renewal. A standby that watched it waits a
//     lease duration; one that starts just then cannot know. Do not delete Leases.
//   - Two replicas have one identity: each adds a random suffix, so that one of them leads. The other says so in
//     [Elector.Ready] and [Status].
//   - Permissions or the namespace are missing: [Elector.Ready] and [Status] name them.
//
// # Shards
//
// [Shards] let all replicas work, each on its part of the keys. A key belongs to one of 64 slots, by a hash of its
// namespace. Each replica is a member by a Lease of its own, with the trust window above; each slot has a record that
// changes only when its owner does. All of them are watched.
//
//		free ──▶ claimed by its target ──▶ worked on ──▶ target is another ──▶ draining ──▶ released (free)
//		 ▲       compare-and-swap           fn runs      members are settled   ErrMoved
//		 └────── owner's membership is over ◀───┘ ErrLost, ErrFenced
//
//	  - A slot is given to another only after its function has returned.
//	  - A slot of a dead member is free once the member's record has been changed by compare-and-swap after a whole lease
//	    duration without renewal. The swap fails if the member lives and only the watch is late, so that a late watch
//	    cannot make two owners.
//	  - Each term of a membership has a name of its own, so that nobody mistakes an old owner for a new one.
//	  - Who has a slot keeps it. A free slot goes to the member with the highest rendezvous score among those that have
//	    less than their share, and living members give up slots only while shares differ by more than one, after the
//	    members have been the same for ShardOptions.Settle. So a new member gets its share and nothing else moves.
//	  - A member that renews but does not take what is its turn to take is passed over: after RetryPeriod +
//	    RequestTimeout, 5 s, whoever sees the slot free takes it. One that stops says so, drains all slots at once and
//	    gets no more.
//	  - A slot is without owner for the drain after a planned move; after a death for LeaseDuration and the time of a few
//	    requests, and 5 s longer if those whose turn it is fail too. If the network delivers a renewal after its sender
//	    was fenced, its lease runs once more: 5 s on top. So while one replica is undisturbed it is never more than
//	    2 × LeaseDuration, 30 s, whatever happens to the others. A successor that dies before it has begun to work was
//	    the owner: its death counts anew.
//	    In many millions of random steps the longest was 24 s.
//	  - The number of slots, the hash and the part of the key are written down. A replica that disagrees does not join:
//	    [ErrDivision].
//
// # Use
//
// A controller of package reconcile takes an [Elector] as Options.Leader, or [Shards] as Options.Shards, and
// clients made from the fenced config. Of a slot that has come it waits until its caches have seen what the last
// owner wrote, takes up all keys and looks for orphans; of one that goes it lets turns in flight finish
// ([ErrMoved], [ErrStopping]) or cancels them ([ErrLost], [ErrFenced]). Others find the difference in the method
// Draining of the cause.
//
// # What it does not do
//
// Kubernetes has no fencing in the server: it cannot refuse a write because its sender's Lease is over. Client-side
// fencing leaves a gap of microseconds between the last look at the clock and the socket, and cannot recall a request
// that a network holds back for longer than LeaseDuration − RenewDeadline. Therefore writes that are not idempotent
// carry a resourceVersion and a UID as preconditions, so that the API server refuses those that come too late. Effects
// outside Kubernetes are not fenced at all; they must end within LeaseDuration − RenewDeadline of the context.
package leader
