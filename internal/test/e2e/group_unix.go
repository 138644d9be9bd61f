//go:build unix

package e2e

import "syscall"

// attributes returns the attributes of a server in its own process group, so
// that an interrupt from the terminal ends the tests first.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
