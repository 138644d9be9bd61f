// Package e2e runs a real Kubernetes control plane on this machine, for tests
// and the demo:
//
//	cluster, err := e2e.Start(ctx, nil)
//	defer cluster.Stop()
//	namespace, err := cluster.Namespace(ctx, "test")
//
// A fake API server proves little about a controller, because conflicts,
// watches, garbage collection and access control belong to the server. So a
// suite starts a real one, which is built from source on first use, and may
// kill parts of it.
//
//	Start ──▶ compile: bin/controlplane, unless it is newer than its sources
//	      ──▶ run it: etcd, kube-apiserver, kube-controller-manager (kube-scheduler) on 127.0.0.1
//	      ──▶ Cluster: Config, Kubeconfig │ KillEtcd, KillAPIServer, Restart │ Stop
//	                   Namespace, ServiceAccount, As, Apply
//
// The contract:
//
//   - Start returns a ready server, or an error with the last lines of output.
//     It never skips.
//   - Packages that start at the same time build once, and the others wait.
//   - A killed component stays down and the others continue. Restart starts it
//     again on the same data and port.
//   - When the process that called Start dies for any reason, the whole
//     control plane ends with it.
//   - Every function returns once its effect can be seen. Its time is limited
//     by its context, or by a time of its own.
//
// There are no kubelets, and the node lifecycle controller is off. So Pods
// never run, and tests write the status of Nodes. The garbage collector takes
// up to half a minute to discover a new custom resource, because that is its
// own interval.
package e2e
