// Package api contains the custom resource of the node reboot operator,
// RebootGroup, and a typed client for it:
//
//	groups, err := api.NewClient(cluster)
//	group, err := groups.Get(ctx, api.DefaultName, metav1.GetOptions{})
//
// A RebootGroup specifies how many of its nodes may be unavailable at once. Its
// status is the ledger that enforces this: a node is disrupted only while it
// has a slot, and a write that adds a slot fails if the ledger has changed.
//
//	spec:   nodeSelector, maxUnavailable, minReadySeconds, paused, windows, drain
//	status: slots (the ledger) ◀── queue (requests, oldest first), conditions
//
// The resource:
//   - It is cluster-scoped. Its group is reboot.homeostat.dev, its version
//     v1alpha1, and its status is a subresource.
//   - [NewClient] makes a typed client without generated code.
//   - The definition to install is deploy/crd.yaml.
//
// The package makes no decisions: the rules are in the operator's controller.
package api
