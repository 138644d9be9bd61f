// Command report runs the benchmarks of Homeostat, client-go and
// controller-runtime, and makes docs/benchmarks/README.md and its picture from
// their output. No number in the document is written by hand.
//
//	report run results.txt           run everything
//	report write results.txt FOLDER  make the page and the picture
//	report check results.txt FOLDER  fail if they were not made from these results
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("want: report [-count N] [-suite NAME] run RESULTS, report write RESULTS FOLDER, " +
	"or report check RESULTS FOLDER")

func run(ctx context.Context, args []string, progress io.Writer) error {
	flags := flag.NewFlagSet("report", flag.ContinueOnError)
	count := flags.Int("count", 5, "run each benchmark `N` times")
	suite := flags.String("suite", "",
		"run only the suite with this `name`, such as queue, and keep the results of the other suites")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch rest := flags.Args(); {
	case len(rest) == 2 && rest[0] == "run":
		return measure(ctx, rest[1], *suite, *count, progress)
	case len(rest) == 3 && rest[0] == "write":
		return eachFile(rest[1], rest[2], func(file string, text []byte) error {
			return os.WriteFile(file, text, 0o644) //nolint:gosec // a document
		})
	case len(rest) == 3 && rest[0] == "check":
		return eachFile(rest[1], rest[2], func(file string, text []byte) error {
			if written, err := os.ReadFile(file); err != nil || !bytes.Equal(written, text) {
				return fmt.Errorf("%s was not made from %s: run make bench-page", file, rest[1])
			}
			return nil
		})
	default:
		return errUsage
	}
}

// eachFile calls do for each file of the report in folder, with its text.
func eachFile(results, folder string, do func(file string, text []byte) error) error {
	text, err := os.ReadFile(results)
	if err != nil {
		return err
	}
	r, err := read(bytes.NewReader(text), results)
	if err != nil {
		return fmt.Errorf("reading the results: %w", err)
	}
	return errors.Join(
		do(filepath.Join(folder, "README.md"), r.page()),
		do(filepath.Join(folder, "ratios.svg"), r.picture()),
		do(filepath.Join(folder, "scale.svg"), r.bars()),
		do(filepath.Join(folder, "costs.txt"), r.costs()),
		do(filepath.Join(folder, "growth.txt"), r.grown()),
		do(filepath.Join(folder, "replicas.txt"), r.replicas()),
	)
}
