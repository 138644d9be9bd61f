// Command tables writes the measured tables of docs/testing.md. It reads the
// output of go test -json while the tests run, so that each figure stands
// beside the load of the machine at that time:
//
//	go test -json -run '^TestZoo$' ./internal/proof/zoo | tables docs/testing.md
//
// The table of the zoo is replaced completely. In the table of the examples'
// explorations, only the rows of explorations that ran are replaced.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "tables:", err)
		os.Exit(1)
	}
}

func run(args []string, tests io.Reader) error {
	if len(args) != 1 {
		return errors.New("usage: go test -json … | tables PAGE")
	}
	page, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	measurements, err := read(tests, loadOf("/proc/loadavg"))
	if err != nil {
		return err
	}
	text, err := measurements.write(string(page), time.Now().UTC().Format(time.DateOnly))
	if err != nil {
		return err
	}
	return os.WriteFile(args[0], []byte(text), 0o644) //nolint:gosec // a document
}

// loadOf returns a function that reads the machine's load of the last minute
// from a file. The function returns 0 if the file does not exist.
func loadOf(file string) func() float64 {
	return func() (load float64) {
		if text, err := os.ReadFile(file); err == nil {
			_, _ = fmt.Sscan(string(text), &load)
		}
		return load
	}
}
