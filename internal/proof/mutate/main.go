// Command mutate measures how much of a package its tests check. It changes one
// place of the source at a time, runs the tests, and prints each change with
// which all tests pass.
//
//	go run ./internal/proof/mutate -n 100 ./queue ./patch
//
// It does not modify sources on disk. An overlay contains all mutants of a
// package, each with a number, so that the tests are built once. The selection
// depends on the seed and on the text of each place, and not on line numbers or
// other places. See docs/testing-internals.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// testedBy contains, for some packages, the other packages whose tests also
// test them. All names are relative to the root of the module.
var testedBy = map[string][]string{
	"internal/diff":                {"patch"},
	"informer":                     {"informer/clientgo"},
	"informer/internal/itemwise":   {"informer"},
	"informer/internal/mutations":  {"informer"},
	"informer/internal/references": {"informer"},
	"informer/internal/requests":   {"informer"},
	"internal/apisim/rules":        {"internal/apisim"},
	"internal/clients":             {"informer", "informer/clientgo", "patch"},
	"leader":                       {"leader/shard"},
	"leader/shard":                 {"leader/shard/ranges"},
	"leader/shard/internal/fleet":  {"leader/shard", "leader/shard/ranges"},
	"leader/shard/internal/plan":   {"leader/shard"},
	"internal/intern":              {"informer"},
	"patch":                        {"cluster"},
	"reconcile":                    {"cluster"},
	"queue":                        {"queue/workqueue"},
}

type options struct {
	mutants, workers int
	seed             uint64
	timeout          time.Duration
	minimum          float64
	filter           *regexp.Regexp
	tests            string
	packages         []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func parse(arguments []string, out io.Writer) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.IntVar(&o.mutants, "n", 20, "mutants of each package")
	flags.Uint64Var(&o.seed, "seed", 1, "number that determines the selection of mutants")
	flags.DurationVar(&o.timeout, "timeout", 0,
		"processor time after which a mutant counts as killed; 0: three times the time of the tests without a mutant, "+
			"plus 10s")
	flags.IntVar(&o.workers, "j", runtime.NumCPU(), "number of mutants that are tried at the same time")
	flags.Float64Var(&o.minimum, "min", 0, "fail if the tests kill less than this percentage of all mutants")
	pattern := flags.String("only", "", "try only mutants whose text, in the form in which survivors are printed, "+
		"matches this regular expression")
	flags.StringVar(&o.tests, "run", "", "run only tests that match this regular expression, like go test -run")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	var err error
	if o.filter, err = regexp.Compile(*pattern); err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	if o.packages = flags.Args(); len(o.packages) == 0 {
		return nil, fmt.Errorf("specify the packages to mutate, for example ./queue")
	}
	return o, nil
}

func run(ctx context.Context, arguments []string, out io.Writer) error {
	o, err := parse(arguments, out)
	if err != nil {
		return err
	}
	packages, err := list(ctx, o.packages...)
	if err != nil {
		return err
	}
	var total score
	table := &strings.Builder{}
	for _, p := range packages {
		var s *score
		if s, err = tried(ctx, o, p, out); s != nil {
			total.killed += s.killed
			total.survived += s.survived
			_, _ = fmt.Fprintf(table, "| %s | %d | %d | %d | %d | %d | %.0f %% | %s |\n",
				s.name, s.sites, s.equivalent, s.tried(), s.killed, s.timeouts, s.percent(), s.took.Round(time.Second))
		}
		if err != nil {
			break
		}
	}
	_, _ = fmt.Fprintf(out, "seed %d\n| package | sites | equivalent | mutants | killed | by time | score | took |\n"+
		"|---|---|---|---|---|---|---|---|\n%s", o.seed, table)
	if err != nil {
		return err
	}
	if total.percent() < o.minimum {
		return fmt.Errorf("%.1f %% of the mutants are killed: want at least %.1f %%", total.percent(), o.minimum)
	}
	return nil
}

// tried runs the tests with the mutants of a package, and returns the score.
func tried(ctx context.Context, o *options, p listed, out io.Writer) (*score, error) {
	temp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	name := strings.TrimPrefix(p.ImportPath, p.Module.Path+"/")
	t := &trial{options: *o, pkg: p, name: name, temp: temp, out: out}
	for _, dir := range append([]string{name}, testedBy[name]...) {
		t.suites = append(t.suites, &suite{dir: filepath.Join(p.Module.Dir, dir), temp: temp, tests: o.tests, out: out})
	}
	return t.run(ctx)
}

// printSurvivor prints the place of a surviving mutant and its change.
func printSurvivor(out io.Writer, survivor *site) {
	path := survivor.file
	if folder, err := os.Getwd(); err == nil {
		if relative, err := filepath.Rel(folder, path); err == nil {
			path = relative
		}
	}
	_, _ = fmt.Fprintf(out, "%s:%d survives\n%s\n", path, survivor.line, survivor.key())
}
