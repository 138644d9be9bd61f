// Package agent reboots one node when the controller has granted it.
//
// An agent dies in the middle of its work: that is its job. What it does next
// follows from its node's annotations, from the boot id of the kernel it runs on,
// and from whether it is the start that has told the machine to reboot.
//
//	reboot-now ──accept, cordon──▶ in-progress{boot id} ──evict──▶ {drained, try} ◀──reboot-permit── controller
//	    │                                                              │
//	    └─decline: clocks differ, inhibitors─▶ reboot-needed           ▼
//	last-reboot ◀─complete: another boot id── reboot ◀──live look── {asked: start, time}
//
// What holds:
//   - Every write is locked: it replaces the node that was looked at, or fails.
//   - The machine is told only after in-progress says that the drain is over, that
//     the controller has permitted it a moment ago, and that the machine is told.
//   - A start of the agent that finds that another one has told the machine,
//     under the same boot id, does not tell it again.
//   - Deadlines are durations of this process. The clock of the node is
//     compared with the controller's only to begin nothing when they differ.
//   - An eviction that is refused is in in-progress and in an event, with the
//     Pod and its disruption budget.
//   - Right before the reboot a live read must show the same reboot in progress.
//   - A reboot that is refused, or does not happen, is asked for again, until the
//     controller calls it off.
//   - A value that it cannot read is left alone, and said so in an event.
//
// It does not decide when to reboot, nor when that takes too long.
package agent
