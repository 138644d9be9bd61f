// Command operators measures published operators as they are released, and
// again with the one line that puts this module's cache behind them, on a real
// API server that is filled as package crowd says. It writes a page about them.
//
// The operators come from the Go module proxy. Each is copied to a scratch
// folder, changed there by replacing text, built, and run in a process of its
// own. Nothing of them is committed.
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
	flag.IntVar(&l.rounds, "rounds", 3, "how often each program is measured; with 0, only the page is written")
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
