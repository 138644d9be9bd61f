// Package witness watches a roll of reboots from outside and says whether the
// operator kept its promises.
//
// A referee must not ask the players: this package shares no code with the
// operator. It has its own watches and its own reading of annotations and ledger,
// and knows of the cluster only what the API server says.
//
//	watch nodes ────────┐
//	                    ├─▶ one history, by resourceVersion ──▶ I1–I5 after every event ──▶ verdict
//	watch rebootgroups ─┘
//
// What holds:
//   - I1: a ledger never has more slots than its group allows.
//   - I2: a node that is told to reboot, or is rebooting, has a slot for its UID.
//   - I3: a node that is down because of us has a slot until it is back.
//   - I4: at some moment between a ledger and the one that replaces it with a new
//     slot, slots and other unavailable nodes together were fewer than the limit.
//   - I5: a node boots at most once for each reboot that its agent accepted.
//
// The history is exact when all resources share one etcd, as resourceVersions are
// comparable then. A watch that breaks is resumed; a gap that cannot be closed is
// a failure, because then not every event was seen.
package witness
