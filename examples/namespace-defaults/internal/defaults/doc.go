// Package defaults adds an owner, a ResourceQuota and a LimitRange to every
// namespace that is not exempt:
//
//	policy, err := defaults.ReadPolicy("policy.yaml")
//	controller, err := defaults.New(client, policy, nil)
//
// People may set an owner at any time, even while the controller is about to
// set the default owner. The owner that they set wins.
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
//   - A quota or a limit range that has our name but not our label is not
//     modified.
//   - The server adds fields to a LimitRange, because it derives defaults from
//     limits. The controller ignores these fields, so that they do not cause
//     repeated writes.
//   - Terminating namespaces are skipped, because their contents are deleted
//     with them.
package defaults
