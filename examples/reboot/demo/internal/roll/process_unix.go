//go:build unix && !linux

package roll

import "syscall"

// attributes puts a child into a group of its own, so that an interrupt from the
// terminal reaches us alone.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
