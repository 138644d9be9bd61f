// Package controller gives nodes leave to reboot, never more at once than their
// group allows.
//
// Caches are behind, and two controllers may believe that they lead. So a cache
// only tells that there may be something to do; what is done is decided by live
// reads and written under the optimistic lock of the object that was read.
//
//	cache ──▶ a step seems due ──▶ live reads ──▶ rules ──▶ one locked write ──▶ look again
//
//	reserve   LIST ledgers, LIST nodes   write ledger
//	grant     LIST ledgers, GET node     write node
//	void      LIST ledgers, GET node     write node
//	release   LIST ledgers, GET node     write ledger
//
// What holds:
//   - A node that several groups select gets no slot, nor one that has a slot
//     of another group. A slot whose node now belongs elsewhere is given back,
//     unless the reboot has begun.
//   - A reservation knows the nodes as of after the ledger that it replaces.
//   - A slot is released only when its node says that the epoch is spent: the
//     reboot took place, or the controller has made it void. A grant replaces
//     the node as it was when the epoch was not spent; so no grant can come
//     after the release of its slot, however late it arrives.
//   - Events are sent after the write that they tell of.
//
// Leader election (Options.Leader) saves work; nothing here needs it.
package controller
