// Package cli is what the operator's programs have in common: flags, the way to
// the API server, logs, signals, and a check at the start that says what is
// missing before anything else runs.
//
//	flags ──▶ kubeconfig ──▶ may I? (one review per permission) ──▶ run until SIGTERM ──▶ exit code
//
// What holds:
//   - The cluster is --kubeconfig's, else the one this process runs in, else that
//     of the default kubeconfig rules ($KUBECONFIG, ~/.kube/config).
//   - Logs go to standard error, as text or JSON.
//   - SIGTERM and SIGINT drain; a second one ends the process at once.
//   - The exit code is 0 after a drain, 1 after an error, 2 for a wrong command line.
//
// It does not know what the programs do.
package cli
