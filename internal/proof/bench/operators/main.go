// Command operators measures published operators twice: as they were released,
// and with the one changed line that makes them use this module's cache. They
// run on a real API server that package crowd has filled. The command writes a
// page with the results.
//
// The operators are downloaded from the Go module proxy. Each operator is
// copied to a scratch folder, changed there by replacing text, built, and run
// in a process of its own. No file of an operator is committed.
//
//	go run ./operators -page ../../../docs/benchmarks/operators.md
//	go run ./operators -rounds 1 descheduler external-secrets
//
// With -page, the figures are kept in a file beside the page, one line for each
// operator, so that the page keeps the figures of operators that are not
// measured again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

func main() {
	l := &laboratory{}
	flag.IntVar(&l.rounds, "rounds", 3, "how many times each program is measured; with 0, only the page is written")
	flag.StringVar(&l.scratch, "scratch", "", "keep sources, programs and the server's data in this `folder` "+
		"(default: a temporary one)")
	flag.StringVar(&l.page, "page", "", "write the page to this `file`, and the figures to a file beside it")
	flag.DurationVar(&l.rest, "rest", rests, "how long a program rests after its start")
	flag.DurationVar(&l.changing, "changes", changing, "how long objects are changed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := l.run(ctx, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "operators:", err)
		os.Exit(1)
	}
}

// laboratory builds and measures operators.
type laboratory struct {
	rounds        int
	scratch, page string
	root          string // the folder of this repository

	rest, changing time.Duration
}

// run measures the operators with these names, or all operators if names is
// empty, and writes the page. If rounds is 0, it only writes the page.
func (l *laboratory) run(ctx context.Context, names []string) (err error) {
	if l.root, err = filepath.Abs("../../.."); err != nil {
		return err
	}
	if l.scratch == "" {
		if l.scratch, err = os.MkdirTemp("", "operators"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(l.scratch)) }()
	}
	if l.rounds == 0 {
		return l.write()
	}
	chosen, err := choose(names)
	if err != nil {
		return err
	}
	var faults error
	built := slices.DeleteFunc(chosen, func(o operator) bool {
		err := l.build(ctx, &o)
		if err != nil {
			faults = errors.Join(faults, fmt.Errorf("building %s: %w", o.Name, err))
		}
		return err != nil
	})
	w, err := newWorld(ctx, filepath.Join(l.scratch, "data"))
	if err != nil {
		return errors.Join(faults, err)
	}
	for _, o := range built {
		if err := l.measure(ctx, w, &o); err != nil {
			faults = errors.Join(faults, fmt.Errorf("measuring %s: %w", o.Name, err))
		}
	}
	return errors.Join(faults, w.stop(), l.write())
}

// choose returns the operators with these names, or all operators if names is
// empty.
func choose(names []string) ([]operator, error) {
	for _, name := range names {
		if !slices.ContainsFunc(operators, func(o operator) bool { return o.Name == name }) {
			return nil, fmt.Errorf("there is no operator %q", name)
		}
	}
	return slices.DeleteFunc(slices.Clone(operators), func(o operator) bool {
		return len(names) > 0 && !slices.Contains(names, o.Name)
	}), nil
}
