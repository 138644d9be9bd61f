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
//	go run ./operators -rounds 1 kueue
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
)

func main() {
	l := &laboratory{}
	flag.IntVar(&l.rounds, "rounds", 3, "how many times each program is measured; with 0, only the page is written")
	flag.StringVar(&l.scratch, "scratch", "", "keep sources, programs, figures and the server's data in this `folder` "+
		"(default: a temporary one)")
	flag.StringVar(&l.page, "page", "", "write the page to this `file`")
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
}

// run measures the operators with these names, or all operators if names is
// empty.
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
	chosen := slices.DeleteFunc(slices.Clone(operators), func(o operator) bool {
		return len(names) > 0 && !slices.Contains(names, o.Name)
	})
	for _, o := range chosen {
		if err := l.build(ctx, &o); err != nil {
			return fmt.Errorf("building %s: %w", o.Name, err)
		}
	}
	w, err := newWorld(ctx, filepath.Join(l.scratch, "data"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	for _, o := range chosen {
		if err := l.measure(ctx, w, &o); err != nil {
			return fmt.Errorf("measuring %s: %w", o.Name, err)
		}
	}
	return l.write()
}
