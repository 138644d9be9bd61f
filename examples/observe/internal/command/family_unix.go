//go:build unix && !linux

package command

import (
	"os/exec"
	"syscall"
)

// inGroup gives a program its own process group.
func inGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func (f *family) mark() []string { return nil }

// signal sends a signal to the living members of the group.
func (f *family) signal(signal syscall.Signal) { _ = syscall.Kill(-f.pid, signal) }
