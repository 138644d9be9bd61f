// Package ranges divides the namespaces among replicas, so that each of them
// lists, watches and caches only the objects of its own share:
//
//	shards, err := ranges.New(leader.Lease{Client: leases, Namespace: "system", Name: "web", Identity: podName}, nil)
//	controller, err := reconcile.New("web", services, reconciler, &reconcile.Options{Shards: shards})
//
// Slots and their owners behave as in package shard, with one difference: a
// slot is a range of hashes of namespaces, as in the shard selectors of the API
// server. For example, of two slots, slot 0 has all namespaces whose hash is
// below a recorded bound, and slot 1 has all others.
//
//	no replica has a slot ──▶ count the objects ──▶ record ranges ──▶ each term: adopt them ──▶ claim slots
//
// # Contract
//
//   - Ranges are chosen only when it is certain that no replica has a slot: at
//     the first start, or after all replicas have stopped.
//   - Replicas that start at the same time use the same ranges.
//   - A replica adopts the recorded ranges in each term of its membership, and
//     the record is not replaced before that term has ended.
//   - If the recorded ranges are changed while replicas run, the replicas end
//     with [shard.ErrConfig], and no namespace has two owners.
//   - When ranges are chosen again, keys that were left with slots are given to
//     the new owners of their namespaces.
//
// Ranges stay the same while replicas run, even if namespaces are created or
// grow. To choose new ranges, scale the program to zero and up again.
package ranges
