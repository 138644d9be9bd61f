// Package witness watches a roll of reboots from outside, and reports whether
// the operator has kept its promises:
//
//	w, err := witness.New(config, "demo")
//	go w.Run(ctx, started)
//	violations, events, err := w.Verdict()
//
// A judgement must not depend on the program that is judged. So this package
// shares no code with the operator. It has its own watches, parses the
// annotations and the ledger itself, and knows about the cluster only what the
// API server sends.
//
//	watch nodes ────────┐
//	                    ├─▶ one history, by resourceVersion ──▶ I1–I5 after every event ──▶ verdict
//	watch rebootgroups ─┘
//
// The invariants:
//   - I1: a ledger never has more slots than its group allows.
//   - I2: a node that is told to reboot, or is rebooting, has a slot for its
//     UID.
//   - I3: a node that the operator has rebooted has a slot until it is back.
//   - I4: a slot was free at some moment before it was added. More exactly: at
//     some moment between the ledger that adds the slot and the ledger before
//     it, the slots and the other unavailable nodes together were fewer than
//     the limit.
//   - I5: a node boots at most once for each reboot that its agent accepted.
//
// The history is exact if all resources share one etcd, because their
// resourceVersions can then be compared. A broken watch is resumed. A gap in
// the history is a failure, because some events were not seen.
package witness
