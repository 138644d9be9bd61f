// Package operator makes a whole program of controllers in one call: flags, the way
// to the API server, logs, a check of its permissions, probes, metrics, leader
// election, signals.
//
//	flags ──▶ clusters ──▶ may I? ──▶ Setup ──▶ controllers run until SIGTERM ──▶ last Events ──▶ exit code
//	            │  └──▶ /livez /readyz /metrics /debug/homeostat
//	            └──▶ --leader-elect: reconciles run while the Lease is held, writes are fenced
//
// The contract:
//
//   - The cluster is --kubeconfig's, else the one this process runs in, else that
//     of the default kubeconfig rules ($KUBECONFIG, ~/.kube/config).
//   - The probes answer from the start: until the controllers run, /readyz says
//     what the start waits for.
//   - A program that says what it needs, and on which cluster, ends at its start if it
//     may not do it, and says what is missing, or that no server answers.
//   - A permission for Events or for the page that is missing is logged.
//   - A kind that the server does not have under its name ends the program before
//     any controller runs.
//   - With --leader-elect every cluster is fenced: what Setup's controllers write is
//     refused once the Lease may have expired.
//   - A program with a FencingPolicy prints, with --print-fencing-policy, the admission
//     policy about what its leader writes, and nothing runs.
//   - SIGTERM and SIGINT drain; a second one ends the process at once. The probes
//     answer until everything has drained.
//   - The last Events are sent before the end, which waits at most 5 seconds for them.
//   - A flag that every program has and this one defines again, a cluster named twice
//     and a collector registered twice are errors that name it.
//   - What runs beside the controllers runs until they have drained; its error ends
//     the program.
//   - The exit code is 0 after a drain, 1 after an error, 2 for a wrong command
//     line.
//
// A program with a main of its own, of cobra or of controller-runtime's manager, takes
// the parts: [Config], [Logger], [CheckPermissions], [Recorder], [Server],
// [Authorize], [LimitMemory] and [Version].
package operator
