// Package e2e gives tests and the demo a real Kubernetes control plane on this machine.
//
// A fake API server proves little about a controller: conflicts, watches, garbage collection and access control are
// the server's. So a suite starts a real one, built from source on first use, and may kill parts of it.
//
//	Start ──▶ compile: bin/controlplane, unless it is newer than its sources
//	      ──▶ run it: etcd, kube-apiserver, kube-controller-manager (kube-scheduler) on 127.0.0.1
//	      ──▶ Cluster: Config, Kubeconfig │ KillEtcd, KillAPIServer, Restart │ Stop
//	                   Namespace, ServiceAccount, As, Apply
//
// What holds:
//   - Start returns a ready server or an error with the last lines of output. It never skips.
//   - Packages that start at the same time build once; the others wait.
//   - A killed component stays down, the others go on, and Restart brings it back on the same data and port.
//   - When the process that called Start dies, however that happens, the whole control plane ends with it.
//   - Every function returns once its effect can be seen, and is bounded by its context or a time of its own.
//
// There are no kubelets, and the node lifecycle controller is off: Pods never run, and tests write the status of Nodes.
// The garbage collector takes up to half a minute, its own interval, to discover a new custom resource.
package e2e
