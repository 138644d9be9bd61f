// Package ranges divides the namespaces among replicas, so that each of them
// lists, watches and caches only the objects of its own share.
//
//	shards, err := ranges.New(leader.Lease{Client: leases, Namespace: "system", Name: "web", Identity: podName}, nil)
//	controller, err := reconcile.New("web", services, reconciler, &reconcile.Options{Shards: shards})
//
// Slots and their owners behave as in package shard, with one difference: a slot
// is a range of hashes of namespaces, as in the shard selectors of the API
// server. For example, slot 0 of two has all namespaces whose hash is in the
// lower range.
//
//	no replica has a slot ──▶ count the objects ──▶ record ranges ──▶ each term: adopt them ──▶ claim slots
//
// # Contract
//
//   - Ranges are chosen only when certainly no replica has a slot: at the first
//     start, or after all replicas have stopped.
//   - Replicas that start at once have the same ranges.
//   - A replica adopts the recorded ranges in each term of its membership, and
//     nobody replaces them while it has them.
//   - A replica whose ranges are no longer the recorded ones ends:
//     [shard.ErrConfig], and no namespace has two owners.
//   - Keys left with slots go to the owners of their namespaces when ranges are
//     chosen anew.
//
// Ranges stay the same while replicas run, although namespaces are created and
// grow. To choose new ranges, scale the program to zero and up again.
package ranges
