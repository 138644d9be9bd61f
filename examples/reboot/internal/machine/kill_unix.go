//go:build unix

package machine

import "syscall"

func kill(pid int, signal syscall.Signal) error { return syscall.Kill(pid, signal) }
