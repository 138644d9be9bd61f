//go:build unix

package e2e

import "syscall"

// attributes returns the attributes that put a server into a process group of
// its own. An interrupt from the terminal then reaches only the tests. The
// server exits after them, because its input is closed.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
