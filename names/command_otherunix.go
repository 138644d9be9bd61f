//go:build unix && !linux

package names

import "syscall"

// ownGroup gives a command a process group of its own.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
