// Package shard lets all replicas work, each on its share of the keys, whereas
// package leader lets only one of them work. A controller of package reconcile
// takes the shards as an option:
//
//	shards, err := shard.New(leader.Lease{Client: leases, Namespace: "system", Name: "web", Identity: podName}, nil)
//	fenced := shards.Fence(config) // for the clients that write
//	controller, err := reconcile.New("web", services, reconciler, &reconcile.Options{Shards: shards})
//
// Each key belongs to one of 64 slots, by a hash of its namespace. Each replica
// is a member with a Lease of its own and the trust window of package leader.
// Each slot has a record: a Lease that changes only when the slot's owner does.
// Every replica watches all records, computes the same plan from them, and
// claims by compare-and-swap the slots that the plan assigns to it.
//
//	free ──▶ claimed by its target ──▶ worked on ──▶ assigned elsewhere ──▶ draining ──▶ released (free)
//	 ▲       compare-and-swap           fn runs      members are settled   ErrMoved
//	 └────── owner's membership has ended ◀───┘ ErrLost, ErrFenced
//
// # Contract
//
//   - A slot goes to another replica only after its function has returned, and
//     not while a cut-off request of its member can still arrive.
//   - The slots of a dead member become free once its record has been changed
//     by compare-and-swap, after a whole lease duration without a renewal. A
//     late watch cannot create a second owner: the swap fails if the member is
//     alive.
//   - Each term of a membership has its own holder name.
//   - A member that joins for less than Options.Settle moves no slots. After
//     that, shares differ by at most one, and no more slots move than
//     necessary.
//   - A member that renews but does not take its slots is skipped.
//   - A member that stops gives up its slots as they drain, and gets no more.
//   - Keys left with a slot pass to its next owner, and stay with the slot
//     until that owner releases it.
//   - While one replica is undisturbed, a slot has an owner again at most 2 ×
//     LeaseDuration, 30 s, after its last owner released it or last renewed its
//     membership, whatever happens to the other replicas.
//   - A replica that disagrees with the recorded number of slots, hash or key
//     part does not join: [ErrConfig].
//
// # Failures
//
// A member that loses the API server works until its trust window closes; then
// its slots end with [leader.ErrFenced], and it joins again under a new name.
// The other members wait for a lease duration before they take the slots, so
// that its last requests cannot overlap with theirs. A member that crashes is
// treated in the same way.
//
// If another client deletes or edits the record of a slot, the slot's owner
// notices within a few seconds and gives the slot up with [leader.ErrLost]. If
// another client deletes the record of a member, that membership ends. Labels
// that another client removes from a record are put back. A replica that has
// never seen the record with its labels does not take it, because it may be the
// Lease of another program, and logs its name.
//
// # Cost
//
// An undisturbed replica renews its own Lease every RetryPeriod, 2 s, and
// receives one event for each renewal by the others. Slots cost requests only
// when their owner changes. Records of ended members are deleted after an hour.
//
// # Changing the configuration
//
// The number of slots and the key part cannot change while replicas run: stop
// all of them, delete the Lease given to [New], and start them with the new
// [Options].
//
// # Use
//
// When a controller of package reconcile gets a slot, it waits until its caches
// have seen what the last owner wrote. Then it enqueues all keys of the slot,
// also of objects that were deleted within the last minute, and sweeps for
// orphans. When it loses the slot because of [ErrMoved] or
// [leader.ErrStopping], it lets reconciles in flight finish; because of
// [leader.ErrLost] or [leader.ErrFenced], it cancels them. Other users of this
// package distinguish the two cases by [context.Cause] and errors.Is.
//
// A program of package operator does not call this package: it sets
// Program.Replicas to Sharded.
//
// # How many slots
//
// Slots move one by one: a replica that joins or dies moves a share of them,
// and shares differ by at most one slot. With the default of 64, each of 3
// replicas has 21 or 22, and each of 16 has 4. Fewer slots make shares uneven;
// each additional slot costs a Lease that is listed, and events when replicas
// start and stop. Replicas beyond the number of slots stand by.
//
// # Hashes or ranges
//
// [New] divides the keys by their hash, and each replica keeps all objects:
// cache reads work as without shards. Package ranges divides the namespaces,
// and each replica keeps only the objects of its own namespaces. Memory and CPU
// time per replica then fall with the number of replicas, but a reconcile
// cannot read other namespaces from a cache.
package shard
