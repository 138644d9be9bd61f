// Package podruntime adds up, for each namespace, how long its Pods have run,
// and never counts any of that twice.
//
// A sum over deleted objects has to be kept somewhere, and the process that keeps
// it may die between reading and writing. So there is one ledger per namespace, a
// ConfigMap that is written as a whole:
//
//		Pods ───────▶ key: the namespace's ledger ──▶ reconcile: advance(ledger, Pods, now)
//		ConfigMap ──▶                                  │  who is there has changed? ask the server
//		   ▲                                           └──▶ one write, under the version that was read
//		   └───────────────────────────────────────────────────┘
//
//	  - A Pod is entered by its UID, keeps its entry while it exists, and moves into
//	    the sum of the closed ones in the write that removes the entry. Each of these
//	    steps needs the server's word, given after the ledger was read, that the Pod
//	    exists or is deleted. A deletion is final, so no cache can bring it back.
//	  - The total never goes down.
//	  - A Pod that vanished while it was down counts up to the last moment at which it was
//	    known to run. How much more that may have been is kept apart.
//	  - A ledger that is deleted or edited is restored from memory, as long as the
//	    process lives; one that cannot be read is not overwritten.
package podruntime
