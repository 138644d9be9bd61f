package roll

import "syscall"

// attributes puts a child into its own group, so that only we get an interrupt
// from the terminal, and ends it when we end.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
