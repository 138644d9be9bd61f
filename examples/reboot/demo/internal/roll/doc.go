// Package roll plays a roll of reboots on an API server:
//
//	verdict, err := roll.Run(ctx, &roll.Options{Kubeconfig: file, Program: program})
//
// It plays everything that a cluster adds: machines that go down, kubelets that
// report late, and processes that die.
//
//	API server ◀── controllers (processes) ── one is killed
//	    ▲  ▲  ▲
//	    │  │  └─── witness: checks every event
//	    │  └────── agents (processes, one for each node) ── two are killed
//	    │             │ boot id file, reboot file
//	    └── kubelet ── machine (goroutine for each node): runs the agent, goes down, boots
//
// The rules of the play:
//   - The programs are the real ones. Only the machine is simulated: an agent reads
//     its boot id from a file, and requests a reboot by creating one.
//   - A machine that goes down ends its agent. Its kubelet starts another agent
//     after the boot, and after a kill.
//   - Run ends by itself, and ends every process that it has started.
//
// Of the operator it uses only the annotations, the resource and the flags.
package roll
