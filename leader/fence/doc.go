// Package fence lets the API server itself refuse what an old leader writes. It makes
// a ValidatingAdmissionPolicy that compares the Pod that a request comes from with the
// holder of the Lease, and its binding.
//
//	write of Pod a ──network, however late──▶ API server: does a hold the Lease? ──no──▶ 403 Forbidden
//	                                               ▲
//	            Lease ──watch of the API server────┘
//
// The fence of package leader is in the client: it cannot recall a request that the
// network delivers later than the lease lasts, and a program must be linked with it.
// The policy judges a request when it arrives. One does not replace the other: the
// policy's view of the Lease is as late as its watch, by some milliseconds.
//
// # Contract
//
//   - A write of a replica that does not hold the Lease is refused, however late it
//     arrives. With Shards, so is that of a replica whose membership has ended, for an
//     hour.
//   - So is a write of the service account from outside of a Pod.
//   - Only writes of the service account to the Resources are looked at: all others
//     are as before, and so are those to the records of the election.
//   - The policy is of no effect while the Lease does not exist.
//
// # What it needs
//
// Kubernetes 1.30, and a cluster administrator who creates the policy; the program
// needs no further rights. [leader.Lease.Identity] is the name of the Pod, as it is by
// default in package operator, and the service account's token is bound to the Pod, as
// those that the kubelet mounts are.
//
// # What remains
//
// For as long as the API server's watch of the Lease is late, an old leader's write may
// pass and a new leader's first ones may be refused, which its queue retries. Over 50
// handovers on one idle API server, v1.36, the old leader's writes passed for 2 ms at
// most, and the new one's were refused for 3 ms in the median and 52 ms at most. Several
// API servers have a watch each, and a partitioned one is as late as it is partitioned.
// A write of an earlier term of the same Pod is not
// told from one of its present term. Writes of a shard that has moved to another
// replica pass while the replica that sent them is a member; the record of a member
// that ended is deleted after an hour, and then its writes pass. The hour is by the
// clocks of the replica that released the record and of the one that deletes it: if the
// second is ahead, the record is deleted that much earlier, but not within two lease
// durations. If the
// Lease is deleted the policy allows what RBAC does until a replica takes it again:
// to deny instead would deny the Resources to every user of the cluster.
package fence
