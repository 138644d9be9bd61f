// Package agent reboots one node when the controller has granted it:
//
//	a, err := agent.New(clientset.CoreV1().Nodes(), drain.Pods(clientset.CoreV1()), &agent.Options{
//		Node: "node-1", Machine: &machine.Host{},
//	})
//	err = a.Run(ctx)
//
// Every reboot ends the agent in the middle of its work. Its next step follows
// from three facts: the annotations of its node, the boot id of the running
// kernel, and whether this run of the agent has told the machine to reboot.
//
//	reboot-now ──accept, cordon──▶ in-progress{boot id} ──evict──▶ {drained, try} ◀──reboot-permit── controller
//	    │                                                              │
//	    └─decline: clocks differ, inhibitors─▶ reboot-needed           ▼
//	last-reboot ◀─complete: another boot id── reboot ◀──live look── {asked: start, time}
//
// Its promises:
//   - Every write is locked: it fails if the node has changed since it was
//     read.
//   - The machine is told to reboot only after in-progress records three
//     things: the drain is over, the controller has just permitted the reboot,
//     and the machine is about to be told.
//   - A machine that has accepted the call, has not answered it, or was told by
//     an earlier run of the agent is not told again while the boot id stays the
//     same. It may still go down, until the controller gives up.
//   - Deadlines are measured by this process as durations. The node's clock is
//     compared with the controller's clock only to refuse a grant when the two
//     clocks differ.
//   - A refused eviction is reported in in-progress and in an Event, with the
//     Pod and its disruption budget.
//   - Right before the reboot, a live read must show the same reboot in
//     progress.
//   - A machine that refuses is told again, with a new permission, until the
//     controller calls the reboot off.
//   - A value that cannot be parsed is not modified, and is reported in an
//     Event.
//
// The package decides neither when to reboot nor when a reboot takes too long.
package agent
