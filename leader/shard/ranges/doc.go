// Package ranges divides the namespaces among replicas, so that each of them lists, watches and caches only the
// objects of its own share.
//
//	shards, err := ranges.New(leader.Lease{Client: leases, Namespace: "system", Name: "web", Identity: podName}, nil)
//	controller, err := reconcile.New("web", services, reconciler, &reconcile.Options{Shards: shards})
//
// Slots are those of package shard, and everything that it says about their owners holds. A slot is a range of the
// hash of the namespace, as the shard selectors of the API server have it.
//
//	no replica has a slot ──▶ count the objects ──▶ record ranges ──▶ each term: adopt them ──▶ claim slots
//
// # Contract
//
//   - Ranges are chosen only when certainly no replica has a slot: at the first start, or after all replicas have
//     stopped.
//   - Replicas that start at once have the same ranges.
//   - A replica adopts the recorded ranges in each term of its membership, and nobody replaces them while it has
//     them.
//   - A replica whose ranges are no longer the recorded ones ends: [shard.ErrConfig], and no namespace has two
//     owners.
//   - Keys left with slots go to the owners of their namespaces when ranges are chosen anew.
//
// Ranges stay while replicas run, although namespaces come and grow. Scaling to zero and up divides them anew.
package ranges
