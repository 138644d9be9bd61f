// Package controller lets the nodes of a cluster reboot. It never lets more
// nodes of a group reboot at once than the group allows:
//
//	c, err := controller.New(clientset.CoreV1().Nodes(), groups, nil)
//	err = c.Run(ctx)
//
// Caches can be stale, and two controllers can both believe that they lead. So
// a cache only shows that there may be work. Decisions are made from live
// reads, and written under the optimistic lock of the object that was read.
//
//	cache ──▶ a step seems due ──▶ live reads ──▶ rules ──▶ one locked write ──▶ look again
//
//	reserve   LIST ledgers, LIST nodes   write ledger
//	grant     LIST ledgers, GET node     write node
//	void      LIST ledgers, GET node     write node
//	release   LIST ledgers, GET node     write ledger
//
// Its promises:
//   - A node that several groups select gets no slot. A node that has a slot of
//     one group gets no slot of another group. If a node with a slot moves to
//     another group, the slot is released, unless the reboot has begun.
//   - A reservation reads the nodes after the ledger that it replaces.
//   - A slot is released only when its node shows that the epoch is spent: the
//     reboot took place, or the controller has made the epoch void. Either
//     changes the node. So a grant that was decided before that change, and
//     reaches the server after it, fails because of the optimistic lock.
//   - Events are sent after the write that they report.
//
// Leader election (Options.Leader) saves work, but no promise depends on it.
package controller
