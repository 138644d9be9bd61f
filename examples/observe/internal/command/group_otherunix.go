//go:build unix && !linux

package command

import (
	"os/exec"
	"syscall"
)

// inGroup gives a program a process group of its own.
func inGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
