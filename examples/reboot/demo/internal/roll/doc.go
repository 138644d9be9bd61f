// Package roll lets the reboot operator reboot simulated machines, one after
// the other, and reports whether the operator has kept its promises:
//
//	verdict, err := roll.Run(ctx, &roll.Options{Kubeconfig: file, Program: program})
//
// It simulates what a cluster contributes: machines that go down, kubelets that
// report late, and processes that die.
//
//	API server ◀── controllers (processes) ── one is killed
//	    ▲  ▲  ▲
//	    │  │  └─── witness: checks every event
//	    │  └────── agents (processes, one for each node) ── two are killed
//	    │             │ boot id file, reboot file
//	    └── kubelet ── machine (goroutine for each node): runs the agent, goes down, boots
//
// The rules of the simulation:
//   - The controllers and agents are the real programs. Only the machine is
//     simulated: an agent reads the boot id from a file, and requests a reboot
//     by creating another file.
//   - When a machine goes down, its agent ends. The machine's kubelet starts
//     the agent again after the next boot, and after a kill.
//   - Run returns without being stopped, and ends every process that it has
//     started.
//
// The package shares no code with the operator. It knows only the operator's
// annotations, resource and flags.
package roll
