// Package operator turns controllers into a whole program in one call: flags, the
// connection to the API server, logs, a check of its permissions, probes, metrics,
// leader election, signals.
//
//	flags ──▶ clusters ──▶ may I? ──▶ Setup ──▶ controllers run until SIGTERM ──▶ last Events ──▶ exit code
//	            │  └──▶ /livez /readyz /metrics /debug/homeostat
//	            └──▶ --leader-elect: reconciles run while the Lease is held, writes are fenced
//
// The contract:
//
//   - The cluster is that of --kubeconfig, or else the one this process runs in, or
//     else that of the default kubeconfig rules ($KUBECONFIG, ~/.kube/config).
//   - The probes answer from the start: until the controllers run, /readyz says
//     what the program is waiting for.
//   - A program that declares the permissions it needs, and on which cluster,
//     ends at its start if any is missing, and names it, or says that no server
//     answers.
//   - A missing permission for Events or for the page is only logged.
//   - A kind that the server does not have under its name ends the program before
//     any controller runs, unless only optional controllers watch it.
//   - An optional cluster that does not answer stops no other: /readyz names it
//     and stays 200, and its controllers start when it answers. All clusters
//     are asked at the same time.
//   - A changed kubeconfig is read again, without a restart, by all clients of the
//     cluster.
//   - With --leader-elect every cluster is fenced: writes of Setup's
//     controllers are refused once the Lease may have expired.
//   - A program with a FencingPolicy prints, with --print-fencing-policy, the
//     admission policy for its leader's writes, and runs nothing.
//   - SIGTERM and SIGINT drain; a second one ends the process at once. The probes
//     answer until everything has drained.
//   - The last Events are sent before the program ends, which waits at most 5
//     seconds for them.
//   - Redefining a flag that every program has, naming a cluster twice and
//     registering a collector twice are errors that name the duplicate.
//   - Beside runs until the controllers have drained; its error ends the program.
//   - The exit code is 0 after a drain, 1 after an error or for a wrong
//     Program, 2 for a wrong command line.
//
// A program with its own main, with cobra or with controller-runtime's manager
// can use the parts: [Config], [Logger], [CheckPermissions], [Recorder],
// [Server], [Authorize], [LimitMemory] and [Version].
package operator
