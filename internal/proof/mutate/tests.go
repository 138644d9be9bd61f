package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
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

	once   sync.Once
	err    error
	rounds []round // The quick tests, and the slow ones if there are any.
}

// round is one run of a test program.
type round struct {
	flags []string
	limit time.Duration
}

// measure runs the tests without a mutant, once, to see that they are green and how long they take.
func (s *suite) measure(ctx context.Context, limit time.Duration) error {
	s.once.Do(func() { s.err = s.unmutated(ctx, limit) })
	return s.err
}

func (s *suite) unmutated(ctx context.Context, limit time.Duration) error {
	program, err := overlay.Build(ctx, s.temp, s.dir, nil)
	if err != nil {
		return err
	}
	start := time.Now()
	out, err := s.run(ctx, program, 10*time.Minute, "-test.v")
	if err != nil {
		return fmt.Errorf("running the tests of %s without a mutant: %w\n%s", s.dir, err, out)
	}
	s.rounds = rounds(out, time.Since(start), limit)
	return os.RemoveAll(program)
}

// rounds divides the tests of a verbose run that took so long. A limit of zero is three times that, and 5s.
func rounds(out string, took, limit time.Duration) []round {
	var names []string
	var late time.Duration
	for _, m := range regexp.MustCompile(`(?m)^--- PASS: (\S+) \((.+)\)$`).FindAllStringSubmatch(out, -1) {
		if d, err := time.ParseDuration(m[2]); err == nil && d >= slow {
			names = append(names, m[1])
			late += d
		}
	}
	after := func(d time.Duration) time.Duration { return cmp.Or(limit, 3*d+5*time.Second) }
	if len(names) == 0 {
		return []round{{limit: after(took)}}
	}
	pattern := "^(" + strings.Join(names, "|") + ")$"
	return []round{
		{flags: []string{"-test.skip", pattern}, limit: after(max(0, took-late))},
		{flags: []string{"-test.run", pattern}, limit: after(min(took, late))},
	}
}

// kills reports whether a test is red, or takes too long, with the files in place of those on disk.
//
// Errors: [errTimeout] and true, or the tests cannot be built.
func (s *suite) kills(ctx context.Context, files overlay.Files) (bool, error) {
	program, err := overlay.Build(ctx, s.temp, s.dir, files)
	if err != nil {
		return false, err
	}
	defer func() { _ = os.Remove(program) }()
	for _, r := range s.rounds {
		_, err := s.run(ctx, program, r.limit, append([]string{"-test.failfast"}, r.flags...)...)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if errors.Is(err, errTimeout) {
			return true, errTimeout
		}
		if err != nil {
			return true, nil
		}
	}
	return false, nil
}

// run runs a test program, and ends all that it started if it takes longer than the limit.
func (s *suite) run(ctx context.Context, program string, limit time.Duration, flags ...string) (string, error) {
	ctx, stop := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer stop()
	script := fmt.Sprintf(`ulimit -v %d; exec "$0" "$@"`, memory)
	// Of two flags the last one counts.
	arguments := append([]string{"-c", script, program, "-test.run", s.tests}, flags...)
	command := exec.CommandContext(ctx, "sh", arguments...)
	command.Dir = s.dir
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = time.Second
	out, err := command.CombinedOutput()
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return string(out), err
}
