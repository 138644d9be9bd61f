// Package machine reboots the machine of a node:
//
//	host := &machine.Host{}
//	bootID, err := host.BootID(ctx)
//	err = host.Reboot(ctx, bootID)
//
// An agent must know which boot of the kernel runs on its machine, and must be
// able to reboot the machine. The boot id is also a lock: a reboot is requested
// for one boot, and must not end the next one.
//
//	agent ──BootID, Reboot(boot id)──▶ Machine ◀── Host: /proc, systemd-logind or a signal to PID 1
//	                                           ◀── Simulated: tests and demo
//
// Its promises:
//   - Reboot with the id of an earlier boot is refused with [ErrOtherBoot].
//   - Reboot may return before the machine goes down, or never.
//
// It does not drain or cordon nodes, and does not use Kubernetes.
package machine
