// Package podruntime adds up how long the Pods of each namespace have run, and
// counts no time twice:
//
//	controller, metrics, err := podruntime.New(client, nil)
//
// A sum over deleted objects must be stored, and the process that stores it may
// die between reading and writing. So there is one ledger per namespace, a
// ConfigMap that is written as a whole:
//
//	Pods ───────▶ key: the namespace's ledger ──▶ reconcile: advance(ledger, Pods, now)
//	ConfigMap ──▶                                  │  the set of Pods differs? ask the server
//	   ▲                                           └──▶ one write, under the version that was read
//	   └───────────────────────────────────────────────────┘
//
// The contract:
//
//   - A Pod is entered by its UID and keeps its entry while it exists. The
//     write that removes the entry adds the Pod's time to the closed total.
//     Before each of these steps, and after the ledger was read, the server
//     must confirm that the Pod exists or is deleted. A deletion is final, so a
//     stale cache cannot enter the Pod again.
//   - The total never decreases.
//   - A Pod that vanished while the controller was not running counts up to
//     the last moment at which it was known to run. The time that it may have
//     run longer is stored separately.
//   - A ledger that is deleted or edited is restored from memory as long as
//     the process lives. A ledger that cannot be parsed is not overwritten.
package podruntime
