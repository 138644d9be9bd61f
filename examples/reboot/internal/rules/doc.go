// Package rules contains the decisions of the reboot operator as pure functions:
// the next steps of the agent of a node and of the controller of a group.
//
//	step, err := rules.Agent(protocol.Read(node), bootID, time.Now())
//
// The functions read only their arguments, so a process can crash between any two
// steps, and another process continues.
//
//	Requested ─reserve▶ Reserved ─grant▶ Granted ─accept▶ Draining ─reboot▶ Booted ─complete▶ Verifying
//	    ▲                  │ ▲               │                                                 │   │
//	    └──void, release───┘ └────revoke─────┘                              rewrite, grant ◀───┘   │
//	    ▲                                                                                          │
//	    └──────────────────────────────────release─────────────────────────────────────────────────┘
//
// The decisions:
//   - [Agent] depends on in-progress, now and the kernel's boot id.
//   - [ForSlot] returns the next step for one slot of the ledger.
//   - [Reserve] chooses the nodes for free slots, oldest request first.
//   - [Report] explains why nodes are not rebooting.
//
// The rules are safe only if their arguments are fresh enough. Package controller
// describes how fresh each one must be.
package rules
