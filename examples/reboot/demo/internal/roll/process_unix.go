//go:build unix && !linux

package roll

import "syscall"

// attributes returns the attributes of a child in its own process group, so
// that an interrupt from the terminal reaches only this process.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
