package names

import "syscall"

// ownGroup gives a command a process group of its own, and an end with ours.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
