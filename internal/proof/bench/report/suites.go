package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// suite is a set of benchmarks of one package, a program that measures each
// implementation in its own process, or a test in virtual time that prints
// results as benchmarks do.
type suite struct {
	pkg, benchmarks, time string
	count                 int // the largest number of rounds; 0 means no limit
	tags                  string
	program               string // the folder of the program in the package's folder; empty for other suites
	test                  string // the name of the test; empty for other suites
}

var suites = []suite{
	{pkg: "queue", benchmarks: "AddGetDone|DuplicateAdd|HandOff|RequeueLoop|RetryForget", time: "100ms"},
	{pkg: "queue", benchmarks: "Million|Lateness|Starvation", time: "1x", count: 3},
	{pkg: "patch", benchmarks: "Patch", time: "50ms"},
	{pkg: "cache", benchmarks: "Reads", time: "50ms"},
	{pkg: "cache", benchmarks: "Heap", time: "1x", count: 1},
	{pkg: "cache", program: "syncing", count: 1},
	{pkg: "cache", program: "watching", count: 1},
	{pkg: "loop", benchmarks: "NoOp|Flood|EventToReconcile|FreshDuringFlood|Start", time: "1x", count: 3},
	{pkg: "size", benchmarks: "Size", time: "1x", count: 1},
	{pkg: "size", benchmarks: "AtRest", time: "1x", count: 1, tags: "e2e"},
	{pkg: "ingress", benchmarks: ".", time: "1x", count: 3, tags: "e2e"},
	{pkg: "mirror", benchmarks: ".", time: "1x", count: 1, tags: "e2e"},
	{pkg: "references", benchmarks: ".", time: "1x", count: 1, tags: "e2e"},
	{pkg: "replicas", benchmarks: "Replicas", time: "1x", count: 1, tags: "e2e"},
	{pkg: "scale", test: "TestScale", count: 1},
}

// kept matches the lines of a test's output that contain results or their
// context. It does not match the programs' logs.
var kept = regexp.MustCompile(`^(Benchmark\S+\s+\d|pkg: |goos: |goarch: |cpu: )`)

// measure runs the suites, one after the other, in this module's folder, and
// writes their results to a file, whose name is in results. If selected is the
// name of a package, measure runs only the suites of that package, and keeps
// the results of the other packages in the file.
func measure(ctx context.Context, results, selected string, count int, progress io.Writer) (err error) {
	kept, err := keptOf(results, selected)
	if err != nil {
		return err
	}
	machine, err := describe(ctx)
	if err != nil {
		return err
	}
	out, err := os.Create(results)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := out.Write(append(kept, machine...)); err != nil {
		return err
	}
	for _, s := range suites {
		if selected != "" && s.pkg != selected {
			continue
		}
		if err := s.measure(ctx, count, out, progress); err != nil {
			return err
		}
	}
	return nil
}

// measure runs one suite.
func (s *suite) measure(ctx context.Context, rounds int, out, progress io.Writer) error {
	if s.count > 0 {
		rounds = min(rounds, s.count)
	}
	began := time.Now()
	cmd := exec.CommandContext(ctx, "go", s.arguments(rounds)...)
	cmd.Stderr = progress
	printed, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("running the benchmarks of %s: %w: %s", s.pkg, err, printed)
	}
	for line := range bytes.Lines(printed) {
		if kept.Match(line) {
			if _, err := out.Write(line); err != nil {
				return err
			}
		}
	}
	_, _ = fmt.Fprintf(progress, "%s %s: %v\n", s.pkg, s.benchmarks+s.program+s.test,
		time.Since(began).Round(time.Second))
	return nil
}

// keptOf returns the results in a file, except for the results of the package
// excluded. It returns no results if excluded is empty or the file does not
// exist, and an error if there is no suite of this package.
func keptOf(results, excluded string) ([]byte, error) {
	if excluded == "" {
		return nil, nil
	}
	if !slices.ContainsFunc(suites, func(s suite) bool { return s.pkg == excluded }) {
		return nil, fmt.Errorf("-suite is %q: there is no such suite", excluded)
	}
	old, err := os.ReadFile(results)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return remove(old, excluded), err
}

// remove returns results without the lines of the package pkg. It keeps the
// lines that describe the other runs.
func remove(results []byte, pkg string) []byte {
	var rest []byte
	drop := false
	for line := range bytes.Lines(results) {
		if name, ok := bytes.CutPrefix(line, []byte("pkg: ")); ok {
			drop = path.Base(string(bytes.TrimSpace(name))) == pkg
		} else if bytes.HasPrefix(line, []byte("commit: ")) { // another run
			drop = false
		}
		if !drop {
			rest = append(rest, line...)
		}
	}
	return rest
}

// arguments returns the arguments of the go command.
func (s *suite) arguments(rounds int) []string {
	n := strconv.Itoa(rounds)
	if s.program != "" {
		return []string{"run", "./" + s.pkg + "/" + s.program, "-rounds", n}
	}
	if s.test != "" {
		return []string{"test", "-run", "^" + s.test + "$", "-v", "-count", n, "-timeout", "30m", "./" + s.pkg}
	}
	return []string{
		"test", "-run", "^$", "-bench", s.benchmarks, "-benchtime", s.time, "-count", n, "-timeout", "2h", "-tags", s.tags,
		// A benchmark of one round mostly measures its own allocations: it
		// reports the relevant ones.
		fmt.Sprintf("-benchmem=%t", s.time != "1x"), "./" + s.pkg,
	}
}

// describe returns the machine and the commit, as lines of the benchmark
// format.
func describe(ctx context.Context) (string, error) {
	commit, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "", fmt.Errorf("finding the commit: %w", err)
	}
	lines := []string{
		"commit: " + strings.TrimSpace(string(commit)),
		"date: " + time.Now().UTC().Format(time.DateOnly),
		"go: " + strings.TrimPrefix(runtime.Version(), "go"),
		"cores: " + strconv.Itoa(runtime.NumCPU()),
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil { // the file exists only on Linux
		lines = append(lines, "load: "+strings.Fields(string(load))[0])
	}
	if memory, err := os.Open("/proc/meminfo"); err == nil {
		defer func() { _ = memory.Close() }() // it was only read
		first := bufio.NewScanner(memory)
		if first.Scan() {
			if kib, err := strconv.Atoi(strings.Fields(first.Text())[1]); err == nil {
				lines = append(lines, fmt.Sprintf("memory: %d GiB", kib>>20))
			}
		}
	}
	return strings.Join(lines, "\n") + "\n", nil
}
