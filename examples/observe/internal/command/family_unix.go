//go:build unix && !linux

package command

import (
	"os/exec"
	"syscall"
)

// inGroup gives a program a process group of its own.
func inGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func (f *family) mark() []string { return nil }

// signal sends a signal to the members of the group that are still there.
func (f *family) signal(signal syscall.Signal) { _ = syscall.Kill(-f.first, signal) }
