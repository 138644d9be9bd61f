//go:build unix

package names

import (
	"os/exec"
	"syscall"
)

// killWithDescendants makes the end of the command's context end the whole
// process group.
func killWithDescendants(command *exec.Cmd) {
	command.SysProcAttr = ownGroup()
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
}
