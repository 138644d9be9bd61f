package command

import (
	"os/exec"
	"syscall"
)

// inGroup gives a program a process group of its own, and an end with ours.
func inGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
