// Package shard lets all replicas work, each on its part of the keys, where package leader lets one of them work.
//
// A key belongs to one of 64 slots, by a hash of its namespace. Each replica is a member by a Lease of its own, with
// the trust window of package leader. Each slot has a record, a Lease that changes only when its owner does. Every
// replica watches all of them, computes the same plan, and claims by compare-and-swap the slots that the plan assigns
// to it.
//
//	free ──▶ claimed by its target ──▶ worked on ──▶ assigned elsewhere ──▶ draining ──▶ released (free)
//	 ▲       compare-and-swap           fn runs      members are settled   ErrMoved
//	 └────── owner's membership has ended ◀───┘ ErrLost, ErrFenced
//
// # Contract
//
//   - A slot is given to another only after its function has returned, and not while a request of its member that was
//     cut off can still arrive.
//   - The slots of a dead member are free once the member's record has been changed by compare-and-swap after a whole
//     lease duration without renewal. A late watch makes no second owner: the swap fails if the member lives.
//   - Each term of a membership has a holder's name of its own.
//   - A member that joins for less than Options.Settle moves no slot. After that, shares differ by one at most, and no
//     more slots move than that takes.
//   - A member that renews but does not take its slots is passed over.
//   - A member that stops gives up its slots as they are drained, and gets no more.
//   - Keys that are left with a slot ([Shards.Leave]) come to its next owner, and stay with the slot until that
//     releases it.
//   - Ranges that are recorded anew are taken up while replicas run. A namespace has one owner at most meanwhile, and
//     slots whose ranges stay go on.
//   - Keys that are left with a slot whose range changes come to the owners of their namespaces.
//   - While one replica is undisturbed, a slot has an owner again at most 2 × LeaseDuration, 30 s, after its last one
//     has released it or renewed its membership for the last time, whatever happens to the others.
//   - A replica that disagrees with the recorded number of slots, hash or part of the key does not join: [ErrConfig].
//
// # Failures
//
// A member that loses the API server works until its trust window closes; then its slots end with [leader.ErrFenced],
// and it joins again under a new name. The other members wait for a lease duration before they take the slots, so
// that its last requests cannot meet theirs. A member that crashes is treated in the same way. If another client
// deletes or edits the record of a slot, its owner finds that within a few seconds and gives the slot up with
// [leader.ErrLost]; if it deletes the record of a member, that membership ends.
//
// # Cost
//
// An undisturbed replica renews its own Lease every RetryPeriod, 2 s, and receives one event for each renewal of the
// others. Slots cost requests only when their owner changes. Records of members that ended are deleted after an hour.
//
// # Changing the configuration
//
// The number of slots and the part of the key cannot change while replicas run: stop all of them, delete the Lease
// given to [New], and start them with the new [Options].
//
// # Use
//
// A controller of package reconcile takes [Shards] as Options.Shards, and clients made from the fenced config. When
// it gets a slot it waits until its caches have seen what the last owner wrote, enqueues all keys of the slot, those
// of objects that were deleted within the last minute too, and sweeps for orphans. When it loses one it lets
// reconciles in flight finish ([ErrMoved], [leader.ErrStopping]) or cancels them ([leader.ErrLost],
// [leader.ErrFenced]). Other users tell the two apart by [Draining].
//
//	shards, err := shard.New(leader.Lease{Client: leases, Namespace: "system", Name: "web", Identity: podName}, nil)
//	fenced := shards.Fence(config) // for the clients that write
//	controller, err := reconcile.New("web", services, reconciler, &reconcile.Options{Shards: shards})
//
// A program of package operator needs none of this: Program.Replicas is AllShare.
//
// # How many slots
//
// Slots move one by one: a replica that joins or dies moves a share of them, and shares differ by one slot at most.
// With the default of 64, each of 3 replicas has 21 or 22, and each of 16 has 4. Fewer make shares uneven; more cost a
// Lease each, and its list and events when replicas come and go. Replicas beyond the number of slots stand by.
//
// # Which of the two
//
// [New] divides the keys by their hash, and each replica keeps all objects: every read of a cache works as without
// shards. [NewRanges] divides the namespaces, and each replica keeps the objects of its own only: memory and processor
// time fall with the number of replicas, and a reconcile reads no other namespace from a cache.
package shard
