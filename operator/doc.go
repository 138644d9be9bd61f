// Package operator makes a whole program of controllers in one call: flags, the way
// to the API server, logs, a check of what it may do, probes, metrics, leader
// election, signals.
//
//	flags ──▶ clusters ──▶ may I? ──▶ Setup ──▶ controllers run until SIGTERM ──▶ exit code
//	             │                      └──▶ /livez /readyz /metrics /debug/homeostat
//	             └──▶ --leader-elect: reconciles run while the Lease is held, writes are fenced
//
// The contract:
//
//   - The cluster is --kubeconfig's, else the one this process runs in, else that
//     of the default kubeconfig rules ($KUBECONFIG, ~/.kube/config).
//   - A program that says what it needs ends at its start if it may not do it, and
//     says what is missing, or that no server answers.
//   - A kind that the server does not have under its name ends the program before
//     any controller runs.
//   - With --leader-elect every cluster is fenced: what Setup's controllers write is
//     refused once the Lease may have expired.
//   - SIGTERM and SIGINT drain; a second one ends the process at once. The probes
//     answer until everything has drained.
//   - The exit code is 0 after a drain, 1 after an error, 2 for a wrong command
//     line.
//
// A program with a main of its own takes the parts: [Config], [Logger],
// [CheckPermissions], [Recorder], [Server], [Authorize], [LimitMemory] and
// [Version]. Cobra's RunE may call [Program.Main], or those.
package operator
