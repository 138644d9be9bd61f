//go:build unix

// Package pid1 lets a program be the first process of a container:
//
//	code, isFirst, err := pid1.Main()
//
// The first process inherits every process whose parent has ended, and must
// wait for it. If a program did this itself, it might take the exit code of one
// of its own children away from the code that waits for that child. So the
// first process only forwards signals and waits, and runs the program as its
// child.
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

// Main runs the program again as a child process if this is the first process
// of its PID namespace. It waits for the child, and returns the child's exit
// code and true. In any other process it returns false at once.
//
// It returns an error if the child cannot be started, or if waiting for it
// fails.
func Main() (code int, isFirst bool, err error) {
	return runAs(os.Getpid(), func() (int, error) { return run(os.Executable) })
}

// runAs calls run if pid is 1, the id of the first process. Otherwise it does
// nothing, and isFirst is false.
func runAs(pid int, run func() (int, error)) (code int, isFirst bool, err error) {
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
		return 0, fmt.Errorf("finding the executable of this program: %w", err)
	}
	child, err := os.StartProcess(executable, os.Args, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: true}, // so that the child receives Ctrl-C only once, from this process
	})
	if err != nil {
		return 0, fmt.Errorf("starting the program as a child of PID 1: %w", err)
	}
	go func() {
		for s := range signals {
			_ = child.Signal(s) // the child may have ended
		}
	}()
	return await(child.Pid, syscall.Wait4)
}

// wait4 is the type of [syscall.Wait4].
type wait4 = func(pid int, status *syscall.WaitStatus, options int, usage *syscall.Rusage) (ended int, err error)

// await collects the children that end, until the child with the given pid has
// ended, and returns the exit code of that child. If a signal ended the child,
// the code is 128 plus the number of the signal, as in shells.
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
