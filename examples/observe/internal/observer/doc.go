// Package observer runs a program for every object of a kind, and again whenever
// one changes: a reconciler that runs the user's script.
//
//		informer ──key──▶ reconcile: object there ── yes ──▶ COMMAND ARG... namespace name template...
//		names ───orphan─▶              └── no, and the server agrees ──▶ DELETE ARG... namespace name
//
//	  - A reconcile is about the newest state: changes that come while a command runs or
//	    waits are one reconcile. There is one command at a time per key.
//	  - What has failed is run again, with back-off, until it succeeds; a fault that
//	    running it again cannot cure waits for the object to change.
//	  - The server confirms each deletion before the delete command runs. An object
//	    that merely left the selection is not deleted.
//	  - Names that cannot be listed, or make no sense, delete nothing.
package observer
