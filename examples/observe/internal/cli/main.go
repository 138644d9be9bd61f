package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/examples/observe/internal/command"
	"github.com/homeostat/homeostat/examples/observe/internal/observer"
)

// These are the exit codes, except for 0.
const (
	exitFatal       = 1
	exitKeysFailed  = 2
	exitNamesFailed = 3
)

// Main runs observe and returns its exit code. args begins with the path of the
// program file. The help calls the program "observe", unless the file is a
// plugin of kubectl. For example, it calls a file named kubectl-observe
// "kubectl observe".
func Main(args []string, stdout, stderr io.Writer) int {
	output, errOutput := command.NewOutput(stdout, "standard output"), command.NewOutput(stderr, "standard error")
	c := newCommand(programName(args[0]), output, errOutput)
	c.SetArgs(args[1:])
	c.SetOut(output)
	c.SetErr(errOutput)
	err := c.Execute()
	if lost := cmp.Or(output.Err(), errOutput.Err()); lost != nil {
		err = lost // all other errors are consequences of this one
	}
	if err != nil {
		_, _ = fmt.Fprintf(errOutput, "error: %s\n", oneLine(err.Error())) // there is no other place to report it
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, observer.ErrNamesFailed):
		return exitNamesFailed
	case errors.Is(err, observer.ErrKeysFailed):
		return exitKeysFailed
	default:
		return exitFatal
	}
}

// programName returns the name that users type to run the program at path. For
// example, it returns "kubectl observe" for kubectl-observe.
func programName(path string) string {
	if plugin, ok := strings.CutPrefix(strings.TrimSuffix(filepath.Base(path), ".exe"), "kubectl-"); ok {
		return "kubectl " + plugin
	}
	return "observe"
}

// run checks the settings and starts the observer. dash is the number of
// arguments before "--", or -1 without "--".
func (s *settings) run(args []string, dash int, stdout, stderr *command.Output) error {
	if err := s.complete(args, dash); err != nil {
		return fmt.Errorf("%w (see --help)", err)
	}
	if err := s.validate(); err != nil {
		return err
	}
	if !s.quiet {
		for _, warning := range s.warnings() {
			_, _ = fmt.Fprintf(stderr, "warning: %s\n", warning)
		}
	}
	logger := s.logger(stderr)
	klog.SetLogger(logger)
	ctx, stop := signal.NotifyContext(logr.NewContext(context.Background(), logger), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal is not caught
	if s.exitAfter > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, s.exitAfter, errExitAfter)
		defer cancel()
		ctx = limited
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // stops the program when output cannot be written, because commands would run unseen
		select {
		case <-stdout.Failed():
		case <-stderr.Failed():
		case <-ctx.Done():
		}
		cancel()
	}()
	announced := make(chan struct{})
	keepQuiet := context.AfterFunc(ctx, func() {
		defer close(announced)
		if errors.Is(context.Cause(ctx), errExitAfter) {
			_, _ = fmt.Fprintf(stderr, "Shutting down after %v ...\n", s.exitAfter)
		}
	})
	err := s.observe(ctx, stdout, stderr)
	if !keepQuiet() {
		<-announced
	}
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return nil // a signal arrived before the observer was started
	}
	return err
}
