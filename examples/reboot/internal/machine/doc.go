// Package machine reboots the machine of a node.
//
// An agent must know one thing about its machine, which boot of the kernel it
// runs in, and do one thing to it, reboot it. The boot id is also the lock: a
// reboot is asked for on behalf of one boot and must not hit the next one.
//
//	agent ──BootID, Reboot(boot id)──▶ Machine ◀── Host: /proc, systemd-logind or a signal to PID 1
//	                                           ◀── Simulated: tests and demo
//
// What holds:
//   - Reboot of a boot that is over is refused with [ErrOtherBoot].
//   - Reboot may return before the machine goes down, or never.
//
// It does not drain, cordon, or know of Kubernetes.
package machine
