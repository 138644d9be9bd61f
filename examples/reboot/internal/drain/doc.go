// Package drain evicts the Pods of a node through the Eviction API.
//
// A drain takes as long as disruption budgets want, and the agent may die
// meanwhile. So nothing here waits: one pass asks for the eviction of every Pod
// that is still there, side by side, and says which are left. The caller makes
// the next pass.
//
//	LIST pods of the node ──▶ must it leave? ──▶ POST eviction{UID} ──▶ Pass{Left, Returned}
//
// What holds:
//   - Pods of DaemonSets, mirror Pods of the kubelet and Pods that have ended stay.
//   - A Pod is evicted only under the UID that was listed: one of the same name on
//     another node is not touched.
//   - A refusal names the Pod and the disruption budget. "Refused", "no answer",
//     "not asked yet" and "still terminating" are told apart.
//   - An eviction has a few seconds of its own. The client does not wait inside
//     it to ask again, whatever the server says.
//   - Pods that were made after the node was cordoned are named, and not waited
//     for. For example, a Deployment that tolerates the cordon would make one
//     for each that is evicted.
//
// It is not k8s.io/kubectl/pkg/drain: that waits until the Pods are deleted,
// evicts by name alone, asks for each DaemonSet, and links kubectl's printers,
// which makes a program of 37 MB one of 89 MB.
package drain
