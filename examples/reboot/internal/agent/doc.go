// Package agent reboots one node when the controller has granted it.
//
// An agent dies in the middle of its work: that is its job. So it keeps
// nothing in memory. What it does next follows from its node's annotations and
// from the boot id of the kernel it runs on.
//
//	reboot-now ──accept, cordon──▶ in-progress{boot id} ──evict──▶ in-progress{drained} ──live look──▶ reboot
//	                                        │                              │
//	        the drain takes too long: call off, uncordon              kernel has another boot id:
//	                                        ▼                              ▼
//	                                  reboot-needed          complete, uncordon what accept cordoned
//
// What holds:
//   - Every write is locked: it replaces the node that was looked at, or fails.
//   - The machine goes down only after in-progress says that the drain is over; a
//     reboot is called off only before.
//   - An eviction that is refused is in in-progress and in an event, with the Pod and
//     its disruption budget.
//   - Right before the reboot a live read must show the same reboot in progress.
//   - A reboot that is refused, or does not happen, is asked for again.
//   - A value that it cannot read is left alone, and said so in an event.
//
// It does not decide when to reboot.
package agent
