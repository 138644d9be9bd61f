// Command page makes docs/proof.md from the findings of make proof, and from
// the prose in the template proof.md in its own folder. No number of an
// exploration is written by hand.
//
//	page begin results.jsonl COMMIT    creates results.jsonl with a line about the machine; tests add results
//	page merge results.jsonl LATER     adds the results of a later run; they replace those of the same tests
//	page write results.jsonl proof.md  makes proof.md
//	page check results.jsonl proof.md  fails if proof.md was not made from these results
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: page begin RESULTS COMMIT, page merge RESULTS LATER, page write RESULTS PAGE, or " +
	"page check RESULTS PAGE")

func run(args []string) error {
	switch {
	case len(args) == 3 && args[0] == "begin":
		return begin(args[1], args[2])
	case len(args) == 3 && args[0] == "merge":
		return merge(args[1], args[2])
	case len(args) == 3 && args[0] == "write":
		text, err := made(args[1])
		if err != nil {
			return err
		}
		return os.WriteFile(args[2], text, 0o644) //nolint:gosec // a document
	case len(args) == 3 && args[0] == "check":
		text, err := made(args[1])
		if err != nil {
			return err
		}
		if written, err := os.ReadFile(args[2]); err != nil || !bytes.Equal(written, text) {
			return fmt.Errorf("%s was not made from %s and internal/proof/published/page/proof.md: run make proof-page",
				args[2], args[1])
		}
		return nil
	default:
		return errUsage
	}
}

// made returns the page that is made from the results in a file.
func made(results string) ([]byte, error) {
	parsed, err := readFile(results)
	if err != nil {
		return nil, err
	}
	return parsed.page(source)
}

// readFile reads the results in a file.
func readFile(results string) (*runResults, error) {
	text, err := os.ReadFile(results)
	if err != nil {
		return nil, fmt.Errorf("%w: to create the file, run make proof", err)
	}
	return read(text, results)
}

// merge adds the results of a later run to a file.
func merge(file, addition string) error {
	kept, err := readFile(file)
	if err != nil {
		return err
	}
	added, err := readFile(addition)
	if err != nil {
		return err
	}
	text, err := merged(kept, added)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644) //nolint:gosec // goes into docs
}

// machine is the first line of the results of a run. It describes the machine
// on which the run took place.
type machine struct {
	Commit string `json:"commit"`
	// Date is the day of the run in UTC, such as "2026-11-27".
	Date string `json:"date"`
	// Go is the version of Go without the prefix "go".
	Go string `json:"go"`
	// Platform is the operating system and the architecture, such as
	// "linux/amd64".
	Platform string `json:"platform"`
	Cores    int    `json:"cores"`
	// Load is the load average of the last minute when the run began. It is 0
	// where the system does not report it.
	Load float64 `json:"load"`
}

// begin creates a file of results that contains only the line about the
// machine.
func begin(file, commit string) error {
	m := machine{
		Commit: commit, Date: time.Now().UTC().Format(time.DateOnly), Go: strings.TrimPrefix(runtime.Version(), "go"),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(),
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil { // the file exists only on Linux
		if _, err := fmt.Sscan(string(load), &m.Load); err != nil {
			return fmt.Errorf("reading the load average: %w", err)
		}
	}
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(line, '\n'), 0o644) //nolint:gosec // goes into docs
}
