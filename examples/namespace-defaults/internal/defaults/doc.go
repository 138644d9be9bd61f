// Package defaults gives every eligible namespace an owner, a ResourceQuota and
// a LimitRange.
//
// A namespace without them has no owner and may use everything. People may name
// another owner at any time, even while the controller is about to: theirs
// counts.
//
//		Namespaces ─────▶ key ──▶ reconcile: eligible? ── yes ─▶ owner, if there is none
//		ResourceQuotas ──▶            │              └────▶ quota and limits by policy
//		LimitRanges ─────▶            └── exempt ─────────▶ take ours away
//
//	  - The owner is written only into the namespace as it was read: a client that
//	    writes in between wins, and the controller reads again.
//	  - A quota or a limit range of our name without our label is left alone.
//	  - What the server adds to a LimitRange (it derives defaults from limits) is
//	    no difference: nothing is written again and again.
//	  - Terminating namespaces are skipped; their contents are deleted with them.
package defaults
