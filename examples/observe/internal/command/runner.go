package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// DefaultGrace is the default of Runner.Grace.
	DefaultGrace = 5 * time.Second
	// MaxString is the longest argument or variable of a Call, in bytes. Linux
	// limits each of them to MAX_ARG_STRLEN, 128 KiB with pages of 4 KiB,
	// including the NUL at its end.
	MaxString = 128<<10 - 1
)

// A Runner runs programs. It is safe for concurrent use.
type Runner struct {
	// Env is the environment of programs, without the additions of a Call.
	Env []string
	// Timeout is how long a program may run before it gets SIGTERM. 0 means no
	// limit.
	Timeout time.Duration
	// Grace is the time from SIGTERM to SIGKILL. Defaults to [DefaultGrace].
	Grace time.Duration
	// Stdout and Stderr receive the output of programs.
	Stdout, Stderr *Output
}

// A Call is one run of a program.
type Call struct {
	// Argv is the program and its arguments.
	Argv []string
	// Env is added to the environment of the Runner.
	Env []string
	// Stdin is the program's input. Defaults to none.
	Stdin []byte
}

// Run runs a program. It returns after the program has ended and its output has
// been passed on, or cannot be passed on. When ctx ends, Run ends the program.
//
// Possible errors are [ExitError], [TimeoutError], [ErrTooLarge], [ErrNotRead],
// errors of Stdout and Stderr, and the cause of the end of ctx. Any other error
// means that the program could not be started, or was ended by a signal that
// did not come from Run. For example, a program that crashes ends by SIGSEGV.
func (r *Runner) Run(ctx context.Context, call Call) error {
	return r.run(ctx, call, r.Stdout.Lines(), r.Stderr.Lines())
}

// run runs a program like Run, but writes its output to stdout and stderr, and
// closes both at the end of the output. If the program cannot be started, run
// neither writes to them nor closes them.
func (r *Runner) run(ctx context.Context, call Call, stdout, stderr io.WriteCloser) error {
	if err := fits(call); err != nil {
		return err
	}
	runtime.LockOSThread() // the kernel kills the child when the thread that started it ends
	defer runtime.UnlockOSThread()
	program := call.Argv[0]
	running := ctx
	if r.Timeout > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, r.Timeout, &TimeoutError{program, r.Timeout})
		defer cancel()
		running = limited
	}
	c := exec.Command(program, call.Argv[1:]...) //nolint:noctx // the end of ctx begins with SIGTERM
	f := newFamily()
	// Env must not be nil, because nil means the environment of this process.
	c.Env = append([]string{}, slices.Concat(r.Env, call.Env, f.mark())...)
	inGroup(c)
	pipes, err := connect(c, call.Stdin, stdout, stderr)
	if err != nil {
		return fmt.Errorf("starting command %q: %w", program, err)
	}
	if err := c.Start(); err != nil {
		pipes.abandon()
		return explainStart(program, err)
	}
	pipes.begin()
	f.pid = c.Process.Pid
	grace := cmp.Or(r.Grace, DefaultGrace)
	ended := make(chan struct{})
	stop := context.AfterFunc(running, func() { f.end(grace, ended) })
	err = explainEnd(ctx, running, program, c.Wait())
	close(ended)
	stop()
	f.signal(syscall.SIGKILL) // leftover processes
	if lost := pipes.finish(ctx); lost != nil {
		return errors.Join(err, fmt.Errorf("passing on the output of command %q: %w", program, lost))
	}
	return err
}

// explainStart explains why a program could not be started.
func explainStart(program string, err error) error {
	switch {
	case errors.Is(err, syscall.E2BIG):
		return fmt.Errorf("starting command %q: arguments and environment are %w: pass the object with --stdin",
			program, ErrTooLarge)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("starting command: %w: the first line of a script must be #!/bin/sh or the like", err)
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("starting command: %w: the program, or the interpreter in its first line, is missing "+
			"(does that line end with CR?)", err)
	default:
		return fmt.Errorf("starting command: %w", err)
	}
}

// explainEnd returns the error for a program that was started and did not
// succeed, or nil if err, the result of waiting for it, is nil. running is the
// context of the run: it ends when ctx ends, or after the time limit of the
// run. explainEnd distinguishes the two.
func explainEnd(ctx, running context.Context, program string, err error) error {
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
			return fmt.Errorf("command %q was ended: %w (%w)", program, cause, ctx.Err())
		}
		return fmt.Errorf("command %q was ended: %w", program, context.Cause(ctx))
	case running.Err() != nil:
		return context.Cause(running)
	case exited && exit.Exited():
		return &ExitError{program, exit.ExitCode()}
	default:
		return fmt.Errorf("command %q ended: %w", program, err)
	}
}

// fits returns an error if an argument or a variable is longer than the kernel
// allows, or if an argument contains a NUL.
func fits(call Call) error {
	for i, argument := range call.Argv {
		if len(argument) > MaxString {
			return fmt.Errorf("argument %d has %d bytes, %w (%d): pass the object with --stdin",
				i, len(argument), ErrTooLarge, MaxString)
		}
		if strings.ContainsRune(argument, 0) {
			return fmt.Errorf("argument %d contains a NUL", i)
		}
	}
	for _, variable := range call.Env {
		if len(variable) > MaxString {
			name, _, _ := strings.Cut(variable, "=")
			return fmt.Errorf("variable %s has %d bytes, %w (%d): pass the object with --stdin",
				name, len(variable), ErrTooLarge, MaxString)
		}
	}
	return nil
}
