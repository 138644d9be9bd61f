// Package protocol reads and writes the annotations by which administrator,
// controller and agent talk about the reboot of a node.
//
// Each key has one writer, and moves only together with a second key in a single
// write, so that no request can be lost in between.
//
//	reboot-needed ──grant──▶ reboot-now ──accept──▶ reboot-in-progress ──complete──▶ last-reboot
//	(administrator)  controller          agent           │              agent
//	     ▲                      │                        │
//	     ├───────revoke─────────┘ controller             │
//	     └───────────────────call off────────────────────┘ agent
//
// What holds:
//   - A value that cannot be read is a [FaultError], which names node, key and
//     remedy. A node with a fault in a key is never moved along by the readers
//     of that key.
//   - reboot-needed is opaque and may be empty. The other values are JSON.
//   - [Allow], [Accept], [Complete], [CallOff] and [Revoke] edit a node in
//     memory; the caller writes it under the optimistic lock.
//
// It does not know why a node may or must not be rebooted: package rules does.
package protocol
