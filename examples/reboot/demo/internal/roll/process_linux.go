package roll

import "syscall"

// attributes returns the attributes of a child in its own process group, so
// that an interrupt from the terminal reaches only this process. The child dies
// with this process.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
