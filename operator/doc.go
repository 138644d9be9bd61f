// Package operator turns controllers into a whole program in one call: flags,
// the connection to the API server, logs, a check of its permissions, probes,
// metrics, leader election and signals.
//
//	func main() {
//		program := operator.Program{
//			Name:  "labeller",
//			Needs: []string{"list,watch,patch namespaces"},
//			Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
//				return labeller(env.Cluster, env.Options())
//			},
//		}
//		os.Exit(program.Main(os.Args[1:], os.Stderr))
//	}
//
// A program passes through these steps:
//
//	flags ──▶ clusters ──▶ may I? ──▶ Setup ──▶ controllers run until SIGTERM ──▶ last Events ──▶ exit code
//	            │  └──▶ /livez /readyz /metrics /debug/homeostat
//	            └──▶ --leader-elect: reconciles run while the Lease is held, writes are fenced
//
// The contract:
//
//   - The cluster is the one that --kubeconfig names, or else the one in which
//     the process runs, or else the one of the default kubeconfig rules
//     ($KUBECONFIG, ~/.kube/config).
//   - The probes answer from the start: until the controllers run, /readyz says
//     what the program is waiting for.
//   - A program that declares its permissions checks them at the start. It
//     exits with an error that names each missing permission and its cluster,
//     or the server that does not answer.
//   - A missing permission for Events or for the debug page is only logged.
//   - A kind that the server does not have ends the program before a controller
//     runs, unless only optional controllers watch the kind.
//   - An optional cluster that does not answer delays no other cluster: /readyz
//     names it and stays 200, and its controllers start when it answers.
//   - All clusters are asked at the same time.
//   - All clients of a cluster use a changed kubeconfig without a restart. A
//     kubeconfig that names a different server, or is known to lead to a
//     different cluster, is not used.
//   - A clock of this machine that differs from an API server's by more than a
//     minute is a problem in /readyz, which names the difference.
//   - With --leader-elect every cluster is fenced: writes of Setup's
//     controllers are refused once the Lease may have expired.
//   - With --print-fencing-policy, a program that has a FencingPolicy prints
//     the admission policy for its leader's writes, and exits.
//   - If standard error does not take a line within a second, lines of the log
//     are dropped until it does, /readyz names that, and the work continues.
//   - SIGTERM and SIGINT drain; a second signal ends the process at once.
//   - The probes answer until everything has drained.
//   - The last Events are sent before the program ends, which waits at most 5
//     seconds for them.
//   - Redefining a flag that every program has, naming a cluster twice and
//     registering a collector twice are errors that name the duplicate.
//   - Beside runs until the controllers have drained; its error ends the
//     program.
//   - The exit code is 0 after a drain, 1 after an error or for a wrong
//     Program, 2 for a wrong command line.
//
// A program with its own main function, or one that uses cobra or
// controller-runtime's manager, can use the parts instead: [Config], [Logger],
// [CheckPermissions], [Recorder], [Server], [Authorize], [LimitMemory] and
// [Version].
package operator
