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
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/homeostat/homeostat/internal/proof/mutate/overlay"
)

// slow is how long a test takes that is run only when the quicker ones are green.
const slow = time.Second

// memory is how much address space a test program gets, in KiB: a mutant may allocate without end.
const memory = 16 << 20

var errTimeout = errors.New("took too long")

// suite is the tests of one package.
type suite struct {
	dir, temp string
	tests     string // A regular expression of those to run.
	out       io.Writer

	once    sync.Once
	err     error
	program string   // Has all mutants.
	rounds  []round  // The quick tests, and the slow ones if there are any.
	alone   []string // Tests that are red in a program with all mutants: they count allocations.
}

// round is one run of a test program.
type round struct {
	flags []string
	limit time.Duration
}

// build builds and prepares the tests, once, with all mutants.
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

// prepare runs the tests without a mutant to see that they are green and how long they take.
func (s *suite) prepare(ctx context.Context, program string, limit time.Duration) error {
	s.program = program
	start := time.Now()
	out, err := s.run(ctx, program, 0, 10*time.Minute, "-test.v")
	took := time.Since(start)
	if err != nil {
		for _, m := range verdict.FindAllStringSubmatch(out, -1) {
			if m[1] == "FAIL" {
				s.alone = append(s.alone, m[2])
			}
		}
		if len(s.alone) == 0 || ctx.Err() != nil {
			return fmt.Errorf("running the tests of %s without a mutant: %w\n%s", s.dir, err, out)
		}
		if err := s.green(ctx); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(s.out, "%s: run only where the others let a mutant live: %s\n", s.dir, strings.Join(s.alone, " "))
	}
	s.rounds = rounds(out, took, limit)
	return nil
}

// green runs the tests that are red with all mutants in the program, as they are on disk.
func (s *suite) green(ctx context.Context) error {
	program, err := overlay.Build(ctx, s.temp, s.dir, nil)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(program) }()
	if out, err := s.run(ctx, program, 0, 10*time.Minute, "-test.run", anyOf(s.alone)); err != nil {
		return fmt.Errorf("running the tests of %s without a mutant: %w\n%s", s.dir, err, out)
	}
	return nil
}

// anyOf returns the pattern of these tests.
func anyOf(names []string) string { return "^(" + strings.Join(names, "|") + ")$" }

// rounds divides the tests of a verbose run that took so long, but for the red ones. A limit of zero is three times
// that, and 5s.
func rounds(out string, took, limit time.Duration) []round {
	var late, others []string
	var lateTook time.Duration
	for _, m := range verdict.FindAllStringSubmatch(out, -1) {
		d, err := time.ParseDuration(m[3])
		switch {
		case m[1] == "FAIL":
			others = append(others, m[2])
		case err == nil && d >= slow:
			late = append(late, m[2])
			lateTook += d
		}
	}
	after := func(d time.Duration) time.Duration { return cmp.Or(limit, 3*d+5*time.Second) }
	quick := round{limit: after(max(0, took-lateTook))}
	if others = append(others, late...); len(others) > 0 {
		quick.flags = []string{"-test.skip", anyOf(others)}
	}
	if len(late) == 0 {
		return []round{quick}
	}
	return []round{quick, {flags: []string{"-test.run", anyOf(late)}, limit: after(min(took, lateTook))}}
}

// kills reports whether a test is red, or takes too long, if the program is the mutant.
//
// Errors: [errTimeout], or the tests cannot be built.
func (s *suite) kills(ctx context.Context, m *mutant) (bool, error) {
	for _, r := range s.rounds {
		flags := slices.Concat(r.flags, []string{"-test.failfast"})
		if _, err := s.run(ctx, s.program, m.number, r.limit, flags...); err != nil {
			return isRed(err)
		}
	}
	if len(s.alone) == 0 {
		return false, nil
	}
	program, err := overlay.Build(ctx, s.temp, s.dir, m.alone())
	if err != nil {
		return false, err
	}
	defer func() { _ = os.Remove(program) }()
	if _, err = s.run(ctx, program, 0, 10*time.Minute, "-test.failfast", "-test.run", anyOf(s.alone)); err != nil {
		return isRed(err)
	}
	return false, nil
}

// isRed reports whether an error is that of a test program that has ended by itself, with a red test.
func isRed(err error) (bool, error) {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return true, nil
	}
	return false, err
}

// run runs a test program, and ends all that it started if it takes longer than the limit.
func (s *suite) run(
	ctx context.Context, program string, mutant int, limit time.Duration, flags ...string,
) (string, error) {
	ctx, stop := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer stop()
	script := fmt.Sprintf(`ulimit -v %d; exec "$0" "$@"`, memory)
	// Of two flags the last one counts.
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
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return string(out), err
}
