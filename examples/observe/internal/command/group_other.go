//go:build !unix

package command

import (
	"os/exec"
	"syscall"
)

func inGroup(*exec.Cmd) {}

// signalGroup kills the program alone: there are no groups.
func signalGroup(c *exec.Cmd, _ syscall.Signal) { _ = c.Process.Kill() }
