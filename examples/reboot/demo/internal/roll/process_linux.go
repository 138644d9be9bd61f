package roll

import "syscall"

// attributes puts a child into a group of its own, so that an interrupt from the
// terminal reaches us alone, and ends it when we are gone.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
