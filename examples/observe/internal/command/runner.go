package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// DefaultGrace is the time from SIGTERM to SIGKILL.
	DefaultGrace = 5 * time.Second
	// MaxString is the longest argument or variable in bytes that Linux takes
	// (MAX_ARG_STRLEN, with the NUL at its end).
	MaxString = 128<<10 - 1
	// lingering is how long what a program left behind may hold its output open.
	lingering = 2 * time.Second
)

// A Runner runs programs. It is safe for concurrent use.
type Runner struct {
	// Env is the environment of programs, but for what a Call adds.
	Env []string
	// Timeout of a run; 0 is none.
	Timeout time.Duration
	// Grace is the time from SIGTERM to SIGKILL; [DefaultGrace].
	Grace time.Duration
	// Stdout and Stderr take what programs print.
	Stdout, Stderr *Output
}

// A Call is one run of a program.
type Call struct {
	// Argv is the program and its arguments.
	Argv []string
	// Env is added to the Runner's.
	Env []string
	// Stdin is what the program reads; nothing.
	Stdin []byte
}

// Run runs a program and returns when it has ended. When ctx ends, so does the
// program.
//
// Errors: [ExitError], [TimeoutError], [ErrTooLarge], the cause of the end of
// ctx; otherwise the program could not be started.
func (r *Runner) Run(ctx context.Context, call Call) error {
	if err := fits(call); err != nil {
		return err
	}
	program := call.Argv[0]
	running := ctx
	if r.Timeout > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, r.Timeout, &TimeoutError{program, r.Timeout})
		defer cancel()
		running = limited
	}
	err := r.run(running, call)
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("command %q was ended: %w", program, errors.Join(ctx.Err(), context.Cause(ctx)))
	case running.Err() != nil:
		return context.Cause(running)
	case exited && exit.Exited():
		return &ExitError{program, exit.ExitCode()}
	case exited:
		return fmt.Errorf("command %q ended: %w", program, err)
	case errors.Is(err, syscall.E2BIG):
		return fmt.Errorf("starting command %q: arguments and environment are %w: pass the object with --stdin",
			program, ErrTooLarge)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("starting command: %w: the first line of a script is #!/bin/sh or the like", err)
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("starting command: %w: or what its first line names is missing (does it end with CR?)", err)
	default:
		return fmt.Errorf("starting command: %w", err)
	}
}

func (r *Runner) run(ctx context.Context, call Call) error {
	runtime.LockOSThread() // the kernel kills the child when the thread that made it ends
	defer runtime.UnlockOSThread()
	c := exec.Command(call.Argv[0], call.Argv[1:]...) //nolint:noctx // the end of ctx begins with SIGTERM
	c.Env = append(slices.Clip(r.Env), call.Env...)
	if call.Stdin != nil {
		c.Stdin = bytes.NewReader(call.Stdin)
	}
	stdout, stderr := r.Stdout.Lines(), r.Stderr.Lines()
	defer stdout.Flush()
	defer stderr.Flush()
	c.Stdout, c.Stderr = stdout, stderr
	c.WaitDelay = lingering
	inGroup(c)
	if err := c.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	defer context.AfterFunc(ctx, func() { end(c, cmp.Or(r.Grace, DefaultGrace), ended) })()
	err := c.Wait()
	close(ended)
	signalGroup(c, syscall.SIGKILL) // what it left behind
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil // the program itself ended well
	}
	return err
}

// end ends a program and what it started, first politely.
func end(c *exec.Cmd, grace time.Duration, ended <-chan struct{}) {
	signalGroup(c, syscall.SIGTERM)
	kill := time.NewTimer(grace)
	defer kill.Stop()
	select {
	case <-ended:
	case <-kill.C:
		signalGroup(c, syscall.SIGKILL)
	}
}

// fits tells whether the kernel can pass the call on.
func fits(call Call) error {
	for i, argument := range call.Argv {
		if len(argument) >= MaxString {
			return fmt.Errorf("argument %d has %d bytes, %w (%d): pass the object with --stdin",
				i, len(argument), ErrTooLarge, MaxString)
		}
		if strings.ContainsRune(argument, 0) {
			return fmt.Errorf("argument %d contains a NUL", i)
		}
	}
	for _, variable := range call.Env {
		if len(variable) >= MaxString {
			name, _, _ := strings.Cut(variable, "=")
			return fmt.Errorf("variable %s has %d bytes, %w (%d): pass the object with --stdin",
				name, len(variable), ErrTooLarge, MaxString)
		}
	}
	return nil
}
