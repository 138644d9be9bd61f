// Package fence lets the API server itself refuse the writes of an old leader.
// It makes a manifest, which a cluster administrator applies once:
//
//	manifest, err := fence.YAML(fence.Options{
//		Namespace: "shop", Lease: "website", ServiceAccount: "website-operator",
//		Resources: []string{"deployments.apps", "websites.example.com/status"},
//	})
//
// The manifest has a ValidatingAdmissionPolicy and its binding. The policy
// compares the Pod that sent a request with the holder of the Lease:
//
//	write of Pod a ──network, however late──▶ API server: does a hold the Lease? ──no──▶ 403 Forbidden
//	                                               ▲
//	            Lease ──watch of the API server────┘
//
// The fence of package leader is in the client. It cannot recall a request that
// the network delivers after the lease has expired, and it only protects
// programs that are linked with it. The policy, in contrast, judges a request
// when it arrives. Neither replaces the other, since the policy's view of the
// Lease lags behind by the delay of a watch, a few milliseconds.
//
// # Contract
//
//   - A write of a replica that does not hold the Lease is refused, however
//     late it arrives. With Shards, a write of a replica whose membership has
//     ended is refused too, for an hour.
//   - A write of the service account from outside a Pod is refused too.
//   - Only writes of the service account to the Resources are checked: all
//     others pass as before, including those to the records of the election.
//   - The policy has no effect while the Lease does not exist.
//
// # What it needs
//
// Kubernetes 1.30, and a cluster administrator who creates the policy; the
// program needs no further rights. [leader.Lease.Identity] must be the name of
// the Pod, as it is by default in package operator, and the service account's
// token must be bound to the Pod, as tokens mounted by the kubelet are.
//
// # What remains
//
// While the API server's watch of the Lease lags, an old leader's write may
// pass. A new leader's first writes may be refused, and its queue retries them.
// Over 50 handovers on one idle API server, v1.36, the old leader's writes
// passed for 2 ms at most, and the new leader's were refused for a median of 3
// ms and at most 52 ms. Each API server has its own watch, and a partitioned
// server lags for as long as the partition lasts.
//
// The policy cannot distinguish a write of an earlier term of the same Pod from
// a write of its present term. With Shards, writes for a shard that has moved
// to another replica pass while the replica that sent them is a member.
//
// The record of a member that ended is deleted after an hour, and then the
// member's writes pass. The hour is measured between two clocks, one of the
// replica that released the record and one of the replica that deletes it. If
// the second clock is ahead, the record is deleted that much earlier, but not
// within two lease durations.
//
// If the Lease is deleted, the policy allows what RBAC allows until a replica
// takes the Lease again. Denying instead would deny the Resources to every user
// of the cluster.
package fence
