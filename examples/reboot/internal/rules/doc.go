// Package rules contains the decisions of the reboot operator as pure
// functions: the next steps of the agent of a node and of the controller of a
// group.
//
//	step, err := rules.Agent(protocol.Read(node), bootID, time.Now())
//
// The functions read only their arguments, so a process can crash between any
// two steps, and another process continues.
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
// Five sets of words occur in the arguments and results:
//
//	words                    where they are                                        example
//	keys of annotations      package protocol; administrator, controller and       reboot-now
//	                         agent write them to the node
//	fields of the ledger     api.Slot, api.Waiting; the controller writes them     status.slots[].epoch
//	                         to the status of the group
//	steps                    AgentStep, ProgressStep, SlotStep; a rule returns     grant
//	                         them, and they are not stored
//	states of a node         StateGranted and others; kubectl reboot shows them    Granted
//	                         to people
//	conditions of a group    ConditionStuck and others, with reasons; people       Waiting
//	                         and alerts read them in the status of the group
//
// For example, the step "grant" writes the key reboot-now, and the state of the
// node is then Granted. In the diagram, the arrows are steps.
//
// The rules are safe only if their arguments are fresh enough. Package
// controller describes how fresh each one must be.
package rules
