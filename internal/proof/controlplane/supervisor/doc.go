// Package supervisor runs a whole Kubernetes control plane as child processes
// of one program.
//
// Tests of a controller want a real API server, on a machine that has neither a
// cluster nor a container runtime, and they want to kill parts of it. So one
// program holds every component as a sub-command, and a Supervisor starts that
// program once per component.
//
//	Supervisor ── starts, waits for readiness, watches, stops
//	   ├── etcd ◀────────────────┐ http, loopback
//	   ├── kube-apiserver ───────┘◀─┐ https, loopback, RBAC
//	   ├── kube-controller-manager ─┤ admin certificate
//	   └── kube-scheduler ──────────┘ system:kube-scheduler (optional)
//
// What holds:
//   - Everything listens on 127.0.0.1 only, on ports that were free.
//   - Ready means: readyz answers, the RBAC roles exist, the default namespace
//     has its service account and its CA.
//   - A component that ends unasked ends the Supervisor with an error that has
//     its exit status and the end of its log.
//   - A data directory that is given is kept and locked; a later Supervisor on
//     it has the same objects, ports, certificates and tokens. Without one a
//     temporary directory is used, and removed at the end.
//   - The children's standard input is a pipe which only the Supervisor holds:
//     however it dies, they see its end.
//
// There are no kubelets: Pods are created and scheduled, but never run, and
// Nodes have no reports. The controllers that act on a kubelet's silence (node
// lifecycle, taint eviction, pod garbage collection) are therefore off.
package supervisor
