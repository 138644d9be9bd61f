// Package gate forbids reboots while something outside of the nodes is wrong: an
// alert fires, or a command of the administrator says no.
//
//	controller ──a slot is free──▶ Gate ──▶ Alerts:  a query of Prometheus has a result
//	                                    └─▶ Command: it ends with another status than 0
//
// What holds:
//   - What cannot be asked forbids: an error is a reason.
//   - The answer is kept for a short while, so that a burst of reconciles asks
//     once.
//
// It does not revoke grants.
package gate
