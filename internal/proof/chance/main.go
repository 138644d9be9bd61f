// Command chance looks for tests that fail by chance. It runs the tests of
// packages many times under the race detector, on one, two and eight
// processors, while other processes are always busy.
//
//	go run ./internal/proof/chance -n 200 ./queue ./informer
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// processors are the values of GOMAXPROCS that runs use in turn.
var processors = []int{1, 2, 8}

type settings struct {
	times    int    // number of runs of each package
	busy     int    // number of busy loops that run at the same time
	run      string // the pattern of go test -run
	packages []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := try(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "chance:", err)
		os.Exit(1)
	}
}

// try runs the tests of all packages in args many times, and returns an error
// if a test has failed.
func try(ctx context.Context, args []string, out io.Writer) error {
	var s settings
	flags := flag.NewFlagSet("chance", flag.ContinueOnError)
	flags.IntVar(&s.times, "n", 200, "`runs` of each package")
	flags.IntVar(&s.busy, "busy", 2, "`number` of processes that keep a processor busy meanwhile")
	flags.StringVar(&s.run, "run", ".", "run only the tests that match this `expression`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if s.packages = flags.Args(); len(s.packages) == 0 || s.times < 1 || s.busy < 0 {
		return errors.New("specify packages, as in \"chance -n 200 ./queue\"; " +
			"-n must be positive, and -busy must not be negative")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range s.busy {
		go spin(ctx)
	}
	var errs []error
	for _, p := range s.packages {
		failed, err := s.try(ctx, p, out)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("running the tests of %s: %w", p, err))
		case failed > 0:
			errs = append(errs, fmt.Errorf("the tests of %s failed in %d of %d runs", p, failed, s.times))
		}
	}
	return errors.Join(errs...)
}

// spin keeps one processor busy until ctx ends.
func spin(ctx context.Context) {
	for ctx.Err() == nil {
		runtime.Gosched()
	}
}

// try builds the tests of one package, runs them many times, and returns how
// often they failed. It writes the output of each failed run to out.
func (s settings) try(ctx context.Context, packagePath string, out io.Writer) (failed int, err error) {
	folder, err := os.MkdirTemp("", "chance-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	binary := filepath.Join(folder, "tests")
	build := exec.CommandContext(ctx, "go", "test", "-race", "-vet=off", "-c", "-o", binary, packagePath)
	if said, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("building the tests: %w\n%s", err, said)
	}
	if _, err := os.Stat(binary); err != nil {
		_, _ = fmt.Fprintf(out, "%s has no tests\n", packagePath)
		return 0, nil
	}
	for i := range s.times {
		procs := processors[i%len(processors)]
		said, err := s.runOnce(ctx, binary, packagePath, procs)
		if ctx.Err() != nil {
			return failed, ctx.Err()
		}
		if err != nil {
			failed++
			_, _ = fmt.Fprintf(out, "%s, run %d, GOMAXPROCS=%d: %v\n%s\n", packagePath, i+1, procs, err, said)
		}
	}
	_, _ = fmt.Fprintf(out, "%s: %d runs, %d failed\n", packagePath, s.times, failed)
	return failed, nil
}

// runOnce runs the tests once in the folder of their package, as go test does,
// with procs as GOMAXPROCS. It returns their output.
func (s settings) runOnce(ctx context.Context, binary, packagePath string, procs int) (said string, err error) {
	folder, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", packagePath).Output()
	if err != nil {
		return "", fmt.Errorf("finding the folder of the package: %w", err)
	}
	var output bytes.Buffer
	test := exec.CommandContext(ctx, binary, "-test.run="+s.run, "-test.timeout=15m", "-test.count=1")
	test.Dir = strings.TrimSpace(string(folder))
	// The race detector would sleep for a second at the end of each run.
	test.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(procs), "GORACE=atexit_sleep_ms=0")
	test.Stdout, test.Stderr = &output, &output
	err = test.Run()
	return output.String(), err
}
