//go:build !unix

package command

import (
	"os"
	"os/exec"
	"syscall"
)

func inGroup(*exec.Cmd) {}

func (f *family) mark() []string { return nil }

// signal kills only the program, because these systems have no process groups.
func (f *family) signal(syscall.Signal) {
	if process, err := os.FindProcess(f.pid); err == nil {
		_ = process.Kill() // the program may have ended
	}
}
