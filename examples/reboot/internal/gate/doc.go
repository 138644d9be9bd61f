// Package gate forbids reboots while there is a problem outside of the nodes:
// an alert fires, or a command of the administrator fails.
//
//	g := gate.New(time.Minute, gate.Command{"check-cluster"})
//	why := g.Blocked(ctx)
//
// The controller asks it before it assigns a free slot:
//
//	controller ──a slot is free──▶ Gate ──▶ Alerts:  a query of Prometheus has a result
//	                                    └─▶ Command: it ends with a status other than 0
//
// Its promises:
//   - A check that fails forbids reboots, too.
//   - The answer is kept for a short while, so that a burst of reconciles
//     causes only one query.
//
// It does not revoke grants.
package gate
