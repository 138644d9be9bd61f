// Package protocol reads and writes the annotations by which administrator,
// controller and agent communicate about the reboot of a node:
//
//	state := protocol.Read(node)
//	err := protocol.Write(ctx, nodes, node, func(n *corev1.Node) error {
//		protocol.Ask(n, "kernel 6.12")
//		return nil
//	})
//
// Each key has one writer. A step moves a value from one key to another in a
// single write, so that no request is lost.
//
//	reboot-needed ──grant──▶ reboot-now ──accept──▶ reboot-in-progress ──complete──▶ last-reboot
//	(administrator)  controller          agent           │              agent
//	     ▲                      │                        │
//	     ├───────revoke─────────┘ controller             │
//	     └───────────────────call off────────────────────┘ agent
//
// Its promises:
//   - A value that cannot be parsed is a [FaultError], which contains the node,
//     the key and a remedy. Readers of a key with a fault do not change the
//     node.
//   - reboot-needed can be any text, or empty. The other values are JSON.
//   - [Allow], [Accept], [Complete], [CallOff] and [Revoke] edit a node in
//     memory. [Write] writes it under the optimistic lock.
//
// It does not decide whether a node may be rebooted. That is the task of
// package rules.
package protocol
