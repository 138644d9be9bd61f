//go:build unix

package command

import (
	"os/exec"
	"syscall"
)

// signalGroup sends a signal to a program that was started and to what it
// started, as far as they are still there.
func signalGroup(c *exec.Cmd, signal syscall.Signal) { _ = syscall.Kill(-c.Process.Pid, signal) }
