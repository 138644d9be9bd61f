// Package rules has the decisions of the reboot operator as pure functions: what
// the agent of a node and the controller of a group do next.
//
// Their arguments are all they read, so a process may crash between any
// two steps and another continues where it was.
//
//	Requested ─reserve▶ Reserved ─grant▶ Granted ─accept▶ Draining ─reboot▶ Booted ─complete▶ Verifying
//	    ▲                  │ ▲               │                                                 │   │
//	    └──void, release───┘ └────revoke─────┘                              rewrite, grant ◀───┘   │
//	    ▲                                                                                          │
//	    └──────────────────────────────────release─────────────────────────────────────────────────┘
//
// What holds:
//   - [Agent] is a function of in-progress, now and the kernel's boot id.
//   - [ForSlot] is the next step for one slot of the ledger.
//   - [Reserve] chooses the nodes for the free slots, oldest request first.
//   - [Report] answers why a node is not rebooting.
//
// The rules are safe only on the views they ask for; package controller says how
// fresh each must be.
package rules
