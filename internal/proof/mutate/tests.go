package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/homeostat/homeostat/internal/test/overlay"
)

// slow is the duration from which a test counts as slow. Slow tests run only
// after the quick ones have passed.
const slow = time.Second

// memory is the limit of a test program's address space in KiB. There is a
// limit because a mutant may allocate without end.
const memory = 16 << 20

var errTimeout = errors.New("the tests took too long")

// suite contains the tests of one package.
type suite struct {
	dir, temp string
	tests     string // A regular expression for the tests to run.
	out       io.Writer

	once     sync.Once
	err      error
	program  string        // The program with all mutants.
	limit    time.Duration // The limit of processor time for one run.
	rounds   [][]string    // The flags of each run: the quick tests first, and then the slow ones, if any.
	separate []string      // Tests that fail in a program with all mutants, for example because they count allocations.
}

// build builds the test program from files, which are the sources with all
// mutants, and calls prepare. It does so only once.
func (s *suite) build(ctx context.Context, files overlay.Files, limit time.Duration) error {
	s.once.Do(func() {
		var program string
		if program, s.err = overlay.Build(ctx, s.temp, s.dir, files); s.err == nil {
			s.err = s.prepare(ctx, program, limit)
		}
	})
	return s.err
}

var verdict = regexp.MustCompile(`(?m)^--- (PASS|FAIL): (\S+) \((.+)\)$`)

// prepare runs the tests without a mutant, to check that they pass and to
// measure how long they take. Tests that fail must pass with the sources on
// disk. prepare then records them in separate.
func (s *suite) prepare(ctx context.Context, program string, limit time.Duration) error {
	s.program, s.limit = program, 10*time.Minute
	out, took, err := s.run(ctx, program, 0, "-test.v")
	if err != nil {
		for _, m := range verdict.FindAllStringSubmatch(out, -1) {
			if m[1] == "FAIL" {
				s.separate = append(s.separate, m[2])
			}
		}
		if len(s.separate) == 0 || ctx.Err() != nil {
			return fmt.Errorf("running the tests of %s without a mutant: %w\n%s", s.dir, err, out)
		}
		if err := s.green(ctx); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(s.out, "%s: tests that run only for mutants that the other tests do not kill: "+
			"%s\n", s.dir, strings.Join(s.separate, " "))
	}
	s.limit, s.rounds = cmp.Or(limit, 3*took+10*time.Second), rounds(out)
	return nil
}

// green checks that the tests in separate pass with the sources on disk,
// without mutants.
func (s *suite) green(ctx context.Context) error {
	program, err := overlay.Build(ctx, s.temp, s.dir, nil)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(program) }()
	if out, _, err := s.run(ctx, program, 0, "-test.run", anyOf(s.separate)); err != nil {
		return fmt.Errorf("running the tests of %s without a mutant: %w\n%s", s.dir, err, out)
	}
	return nil
}

// anyOf returns a pattern for -run that matches exactly these tests.
func anyOf(names []string) string { return "^(" + strings.Join(names, "|") + ")$" }

// rounds returns the flags of each run of the tests, for suite.rounds: first
// the quick tests, then the slow ones, if any. out is the output of a verbose
// run of all tests. Tests that failed in it are left out.
func rounds(out string) [][]string {
	var slowest, skipped []string
	for _, m := range verdict.FindAllStringSubmatch(out, -1) {
		if d, err := time.ParseDuration(m[3]); m[1] == "FAIL" {
			skipped = append(skipped, m[2])
		} else if err == nil && d >= slow {
			slowest = append(slowest, m[2])
		}
	}
	if skipped = append(skipped, slowest...); len(skipped) == 0 {
		return [][]string{nil}
	}
	quick := []string{"-test.skip", anyOf(skipped)}
	if len(slowest) == 0 {
		return [][]string{quick}
	}
	return [][]string{quick, {"-test.run", anyOf(slowest)}}
}

// kills reports whether a test fails with the mutant. It returns [errTimeout]
// if the tests take too long, and an error if they cannot be built.
func (s *suite) kills(ctx context.Context, m *mutant) (bool, error) {
	for _, flags := range s.rounds {
		if _, _, err := s.run(ctx, s.program, m.number, append([]string{"-test.failfast"}, flags...)...); err != nil {
			return isRed(err)
		}
	}
	if len(s.separate) == 0 {
		return false, nil
	}
	program, err := overlay.Build(ctx, s.temp, s.dir, m.overlay())
	if err != nil {
		return false, err
	}
	defer func() { _ = os.Remove(program) }()
	if _, _, err = s.run(ctx, program, 0, "-test.failfast", "-test.run", anyOf(s.separate)); err != nil {
		return isRed(err)
	}
	return false, nil
}

// isRed returns true if err is the exit status of a test program, because a
// test failed or the program crashed. It returns any other error.
func isRed(err error) (bool, error) {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return true, nil
	}
	return false, err
}

// run runs a test program, and returns its output and the processor time that
// it took. A program that takes more than the limit, or does not end within
// four times the limit, is killed with its children.
func (s *suite) run(
	ctx context.Context, program string, mutant int, flags ...string,
) (string, time.Duration, error) {
	ctx, stop := context.WithTimeoutCause(ctx, 4*s.limit, errTimeout)
	defer stop()
	script := fmt.Sprintf(`ulimit -v %d; ulimit -t %.0f; exec "$0" "$@"`, memory, s.limit.Seconds())
	// If a flag is given twice, the last value counts.
	arguments := append([]string{"-c", script, program, "-test.run", s.tests}, flags...)
	command := exec.CommandContext(ctx, "sh", arguments...)
	command.Dir = s.dir
	if program == s.program {
		command.Env = append(os.Environ(), fmt.Sprintf("%s=%d", numberVariable, mutant))
	}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = time.Second
	out, err := command.CombinedOutput()
	state := command.ProcessState
	if state == nil {
		return string(out), 0, err
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	} else if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
		err = errTimeout
	}
	return string(out), state.UserTime() + state.SystemTime(), err
}
