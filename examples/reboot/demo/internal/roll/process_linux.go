package roll

import "syscall"

// attributes returns the attributes of a child in its own process group. An
// interrupt from the terminal then reaches only this process. The child dies
// with this process.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
