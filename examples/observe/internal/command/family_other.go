//go:build !unix

package command

import (
	"os"
	"os/exec"
	"syscall"
)

func inGroup(*exec.Cmd) {}

func (f *family) mark() []string { return nil }

// signal kills the program alone: there are no groups.
func (f *family) signal(syscall.Signal) {
	if process, err := os.FindProcess(f.first); err == nil {
		_ = process.Kill() // it may have ended
	}
}
