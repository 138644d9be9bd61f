//go:build unix

// Package pid1 lets a program be the first process of a container.
//
// The first process inherits every process whose parent has ended, and must wait
// for it. A program that does so by itself may take the exit code of one of its
// own children before the part that asked for it can. So the first process does
// nothing else, and the program is its child.
//
//	kubelet ──SIGTERM──▶ PID 1: forwards signals, waits for orphans ──▶ the program ──▶ commands
package pid1

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main runs the program if this is the first process of its PID namespace: once
// more, as a child. It returns the child's exit code, and true; otherwise it
// does nothing and returns false.
//
// Errors: the child cannot be started.
func Main() (code int, first bool, err error) {
	return as(os.Getpid(), func() (int, error) { return run(os.Executable) })
}

// as runs the program if pid is that of the first process.
func as(pid int, run func() (int, error)) (code int, first bool, err error) {
	if pid != 1 {
		return 0, false, nil
	}
	code, err = run()
	return code, true, err
}

func run(find func() (string, error)) (int, error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	executable, err := find()
	if err != nil {
		return 0, fmt.Errorf("finding this program: %w", err)
	}
	child, err := os.StartProcess(executable, os.Args, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: true}, // Ctrl-C reaches it once: through us
	})
	if err != nil {
		return 0, fmt.Errorf("starting the program as a child of PID 1: %w", err)
	}
	go func() {
		for s := range signals {
			_ = child.Signal(s) // it may have ended
		}
	}()
	return await(child.Pid, syscall.Wait4)
}

// wait4 is the system call.
type wait4 = func(pid int, status *syscall.WaitStatus, options int, usage *syscall.Rusage) (ended int, err error)

// await waits for every child, and returns the exit code of the one that
// matters: 128 and the signal if one ended it, as shells do.
func await(pid int, wait wait4) (int, error) {
	for {
		var status syscall.WaitStatus
		ended, err := wait(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("waiting for processes: %w", err)
		case ended != pid:
		case status.Signaled():
			return 128 + int(status.Signal()), nil
		case status.Exited():
			return status.ExitStatus(), nil
		}
	}
}
