// Package api has the RebootGroup custom resource of the node reboot operator.
//
// A RebootGroup says how many of its nodes may be unavailable at once, and its
// status is the ledger that enforces it: a node is disrupted only while it has a
// slot, and slots are added only by a write that fails when the ledger has changed.
//
//	spec:   nodeSelector, maxUnavailable, minReadySeconds, paused, windows, drain
//	status: slots (the ledger) ◀── queue (requests, oldest first), conditions
//
// What holds:
//   - Cluster-scoped; group reboot.homeostat.dev, version v1alpha1; status is a subresource.
//   - [NewClient] makes a typed client without generated code.
//   - The definition to install is deploy/crd.yaml.
//
// It decides nothing: the rules are in the operator's controller.
package api
