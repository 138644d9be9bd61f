// Package shard lets all replicas work, each on its part of the keys, where package leader lets one of them work.
//
// A key belongs to one of 64 slots, by a hash of its
// namespace. Each replica is a member by a Lease of its own, with the trust window of
// package leader; each slot has a record that
// changes only when its owner does. All of them are watched.
//
//	free ──▶ claimed by its target ──▶ worked on ──▶ target is another ──▶ draining ──▶ released (free)
//	 ▲       compare-and-swap           fn runs      members are settled   ErrMoved
//	 └────── owner's membership is over ◀───┘ ErrLost, ErrFenced
//
// # Contract
//
//   - A slot is given to another only after its function has returned, and not while a request of its member that was
//     cut off can still arrive.
//   - The slots of a dead member are free once the member's record has been changed by compare-and-swap after a whole
//     lease duration without renewal. A late watch makes no second owner: the swap fails if the member lives.
//   - Each term of a membership has a holder's name of its own.
//   - A member that joins for less than Options.Settle moves no slot. After that, shares differ by one at most,
//     and no more slots move than that takes.
//   - A member that renews but does not take its slots is passed over.
//   - A member that stops gives up its slots as they are drained, and gets no more.
//   - While one replica is undisturbed, a slot is without owner for 2 × LeaseDuration, 30 s, at most, whatever happens
//     to the others.
//   - A replica that disagrees with the recorded number of slots, hash or part of the key does not join: [ErrConfig].
//
// # Use
//
// A controller of package reconcile takes [Shards] as Options.Shards, and clients made from the fenced config. When it
// gets a slot it waits until its caches have seen what the last owner wrote, enqueues all keys of the slot and sweeps
// for orphans. When it loses one it lets reconciles in flight finish ([ErrMoved], [leader.ErrStopping]) or cancels them
// ([leader.ErrLost], [leader.ErrFenced]). Other users tell the two apart by [Draining].
package shard
