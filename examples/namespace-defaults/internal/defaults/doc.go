// Package defaults gives every eligible namespace an owner, a ResourceQuota and
// a LimitRange:
//
//	policy, err := defaults.ReadPolicy("policy.yaml")
//	controller, err := defaults.New(client, policy, nil)
//
// Without them a namespace has no owner and no limits. People may set another
// owner at any time, even while the controller is about to set one. Their owner
// counts.
//
//	Namespaces ─────▶ key ──▶ reconcile: eligible? ── yes ─▶ owner, if there is none
//	ResourceQuotas ──▶            │              └────▶ quota and limits by policy
//	LimitRanges ─────▶            └── exempt ─────────▶ take ours away
//
// The contract:
//
//   - The owner is written under the condition that the namespace has not
//     changed since it was read. If a client writes in between, the controller
//     reads the namespace again.
//   - A quota or a limit range of our name without our label is not modified.
//   - Fields that the server adds to a LimitRange (it derives defaults from
//     limits) are not a difference, so that they do not cause repeated writes.
//   - Terminating namespaces are skipped, because their contents are deleted
//     with them.
package defaults
