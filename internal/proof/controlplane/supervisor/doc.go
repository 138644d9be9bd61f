// Package supervisor runs a whole Kubernetes control plane as child processes
// of one program:
//
//	s, err := supervisor.New(&supervisor.Options{Ready: func(kubeconfig string) { … }})
//	err = s.Run(ctx)
//
// Tests of a controller need a real API server on a machine without a cluster
// or a container runtime, and need to kill parts of it. So one program contains
// every component as a sub-command, and a Supervisor starts that program once
// per component.
//
//	Supervisor ── starts, waits for readiness, watches, stops
//	   ├── etcd ◀────────────────┐ http, loopback
//	   ├── kube-apiserver ───────┘◀─┐ https, loopback, RBAC
//	   ├── kube-controller-manager ─┤ admin certificate
//	   └── kube-scheduler ──────────┘ system:kube-scheduler (optional)
//
// Its promises:
//   - All ports are on 127.0.0.1, and were free.
//   - Ready means that readyz answers, the RBAC roles exist, and the default
//     namespace has its service account and its CA.
//   - A component that ends without a request ends the Supervisor with an error
//     that contains its exit status and the end of its log.
//   - A given data directory is kept and locked. A later Supervisor with it has
//     the same objects, ports, certificates and tokens. Without one, a temporary
//     directory is used, and removed at the end.
//   - The children's standard input is a pipe that only the Supervisor holds. If
//     the Supervisor dies, they see the end of the input.
//
// There are no kubelets. Pods are created and scheduled, but never run, and Nodes
// have no reports. So the controllers that react to the silence of a kubelet (node
// lifecycle, taint eviction, pod garbage collection) are off.
package supervisor
