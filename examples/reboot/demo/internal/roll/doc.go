// Package roll plays a roll of reboots on an API server, with everything that
// a cluster adds: machines that go down, kubelets that report late, and processes
// that die.
//
//	API server ◀── controllers (processes) ── one is killed
//	    ▲  ▲  ▲
//	    │  │  └─── witness: checks every event
//	    │  └────── agents (processes, one for each node) ── two are killed
//	    │             │ boot id file, reboot file
//	    └── kubelet ── machine (goroutine for each node): runs the agent, goes down, boots
//
// What holds:
//   - The programs are the real ones. Only the machine is simulated: an agent reads
//     its boot id from a file and asks for a reboot by making one.
//   - A machine that goes down takes its agent with it; its kubelet starts another,
//     and also after a kill.
//   - Run ends by itself, and no process that it started outlives it.
//
// It knows the operator only by its annotations, its resource and its flags.
package roll
