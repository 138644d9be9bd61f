// Package mutation names the safeguards of the reboot protocol, so that a test
// can take them out one at a time and see which invariant breaks.
//
// A normal build knows no mutations: [Has] is constant false and compiles to
// nothing. Only a test built with the tag "mutate" can switch one on.
package mutation

// A Mutation is one safeguard taken out.
type Mutation string

// The safeguards; None is never switched on.
const (
	None Mutation = "nothing"
	// ReserveLock: slots are reserved on whatever ledger there is.
	ReserveLock Mutation = "reserve without the ledger's resourceVersion"
	// ReserveLive: slots are reserved by the node cache.
	ReserveLive Mutation = "reserve by cached nodes instead of a live list"
	// GrantLock: needed becomes now on whatever node there is.
	GrantLock Mutation = "grant without the node's resourceVersion"
	// AcceptLock: now becomes in-progress on whatever node there is.
	AcceptLock Mutation = "accept without the node's resourceVersion"
	// CompleteLock: in-progress is removed from whatever node there is.
	CompleteLock Mutation = "complete without the node's resourceVersion"
	// ReleaseLock: a slot is released on whatever ledger there is.
	ReleaseLock Mutation = "release without the ledger's resourceVersion"
	// ReleaseVoid: a slot that was not used is released while a grant may be on its way.
	ReleaseVoid Mutation = "release an unused slot without voiding its epoch"
	// ReleaseBootID: a slot is released when the node is Ready, of whatever boot.
	ReleaseBootID Mutation = "release without the node reporting the new boot"
	// RewriteLock: a slot is rewritten on whatever ledger there is.
	RewriteLock Mutation = "rewrite without the ledger's resourceVersion"
	// RevokeLock: now becomes needed on whatever node there is.
	RevokeLock Mutation = "revoke without the node's resourceVersion"
	// Rewrite: a slot whose reboot is done is granted again as it is.
	Rewrite Mutation = "grant again without rewriting the slot"
	// BootIDAssumed: an agent that finds in-progress takes the reboot as done.
	BootIDAssumed Mutation = "complete without another boot id"
	// BootIDIgnored: an agent that finds in-progress reboots.
	BootIDIgnored Mutation = "reboot although the boot id is another"
	// LiveCheck: the node is not looked at right before the reboot.
	LiveCheck Mutation = "reboot without a live look at the node"
)
