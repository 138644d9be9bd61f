package roll

import "syscall"

// attributes puts a child into its own process group, so that an interrupt from
// the terminal reaches only this process. The child dies with this process.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
