// Package program makes a process of the example controllers: flags, the way to
// the API server, logs, a check of what it may do, probes, leader election, signals.
//
//		flags ──▶ config ──▶ may I? ──▶ Setup ──▶ controllers run until SIGTERM ──▶ exit code
//		             │                  └──▶ /livez /readyz /metrics /debug/homeostat
//		             └──▶ --leader-elect: turns run while the Lease is held, writes are fenced
//
//	  - The cluster is --kubeconfig's, else the one this process runs in, else that
//	    of the default kubeconfig rules ($KUBECONFIG, ~/.kube/config).
//	  - A program that says what it needs ends at its start if it may not do it, and
//	    says what is missing, or that no server answers.
//	  - A standby is ready, and has its caches full.
//	  - SIGTERM and SIGINT drain; a second one ends the process at once. The probes
//	    answer until everything has drained.
//	  - The exit code is 0 after a drain, 1 after an error, 2 for a wrong command
//	    line.
package operator
