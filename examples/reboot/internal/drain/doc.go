// Package drain evicts the Pods of a node through the Eviction API:
//
//	d := drain.New(drain.Pods(clientset.CoreV1()), "node-1")
//	pass, err := d.Pass(ctx, true) // again and again, until pass.Over()
//
// A drain takes as long as disruption budgets require, and the agent may end in
// the meantime. So the package does not wait: one pass requests the eviction of
// every remaining Pod, several at a time, and returns the Pods that are left.
// The caller makes the next pass.
//
//	LIST pods of the node ──▶ must it leave? ──▶ POST eviction{UID} ──▶ Pass{Left, Returned}
//
// Its promises:
//   - Pods of DaemonSets, mirror Pods of the kubelet and Pods that have ended
//     are not evicted.
//   - A Pod is evicted only with the UID that was listed. For example, a Pod of
//     the same name on another node is not evicted.
//   - A refusal names the Pod and the disruption budget. "Refused", "no
//     answer", "not asked yet" and "still terminating" are distinguished.
//   - Each eviction has its own timeout of a few seconds. The client does not
//     wait inside the call to retry, even if the server asks it to.
//   - Pods that were created after the node was cordoned are reported, but not
//     waited for. For example, a Deployment that tolerates the cordon would
//     create a new Pod for each evicted one.
//
// It is not k8s.io/kubectl/pkg/drain. That package waits until the Pods are
// deleted, evicts by name alone and sends a request for each DaemonSet. It also
// links kubectl's printers, so that a program of 37 MB becomes one of 89 MB.
package drain
