package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/homeostat/homeostat/internal/proof/published/results"
)

// runResults are the results of a run of make proof, and of later runs that
// have repeated parts of it.
type runResults struct {
	file  string
	runs  []*oneRun
	order []*results.Result
	lines map[*results.Result]int // the line of each result in the file, from 1
	shown map[*results.Result]bool
	// pending contains the findings in table cells that the page has not listed
	// yet.
	pending []*results.Result
}

// oneRun has the results of one run.
type oneRun struct {
	machine

	results []*results.Result
}

// read parses results. Each run begins with a line about the machine. An error
// names the file, the line, and a remedy.
func read(text []byte, file string) (*runResults, error) {
	a := &runResults{file: file, lines: map[*results.Result]int{}, shown: map[*results.Result]bool{}}
	seen := map[string]bool{}
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		fail := func(err error) error { return fmt.Errorf("%s:%d: %w: run make proof again", file, i+1, err) }
		if i == 0 || strings.HasPrefix(line, `{"commit":`) {
			run := &oneRun{}
			if err := decode(line, &run.machine); err != nil {
				return nil, fail(err)
			}
			if run.Commit == "" || run.Date == "" {
				return nil, fail(errors.New("the first line does not describe the machine"))
			}
			a.runs = append(a.runs, run)
			continue
		}
		r := &results.Result{}
		if err := decode(line, r); err != nil {
			return nil, fail(err)
		}
		switch {
		case r.Test == "" || r.Version == "":
			return nil, fail(errors.New("a result lacks its test or its version"))
		case seen[name(r)]:
			return nil, fail(fmt.Errorf("there is a second result of %s", name(r)))
		}
		seen[name(r)] = true
		a.order = append(a.order, r)
		a.lines[r] = i + 1
		run := a.runs[len(a.runs)-1]
		run.results = append(run.results, r)
	}
	return a, nil
}

// name returns the test and the version of a result. Together they identify it.
func name(r *results.Result) string { return r.Test + " with " + r.Version }

// merged returns the text of a file with the results of later runs at the end.
// They replace earlier results of the same tests and versions.
func merged(earlier, addition *runResults) ([]byte, error) {
	repeated := map[string]bool{}
	for _, r := range addition.order {
		repeated[name(r)] = true
	}
	var lines []any
	for _, run := range earlier.runs {
		kept := slices.DeleteFunc(slices.Clone(run.results), func(r *results.Result) bool { return repeated[name(r)] })
		if len(kept) > 0 {
			lines = append(lines, run.lines(kept)...)
		}
	}
	for _, run := range addition.runs {
		lines = append(lines, run.lines(run.results)...)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for _, l := range lines {
		if err := e.Encode(l); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// lines returns the line about the machine, and results.
func (o *oneRun) lines(results []*results.Result) []any {
	lines := []any{o.machine}
	for _, r := range results {
		lines = append(lines, r)
	}
	return lines
}

// decode parses one line of JSON. An unknown field is an error.
func decode(line string, dst any) error {
	d := json.NewDecoder(strings.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(dst); err != nil {
		return fmt.Errorf("reading a line of JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("reading a line of JSON: more data after its end")
	}
	return nil
}

// resultsOf returns the results of a test.
func (a *runResults) resultsOf(test string) []*results.Result {
	var found []*results.Result
	for _, r := range a.order {
		if r.Test == test {
			found = append(found, r)
		}
	}
	return found
}

// single returns a result of the given tests: the result with a finding if
// failed is true, and otherwise the result without one. It returns an error
// unless there is exactly one such result. It also returns an error if a result
// without a finding has not tried all planned deviations.
func (a *runResults) single(failed bool, tests ...string) (*results.Result, error) {
	var found []*results.Result
	for _, test := range tests {
		for _, r := range a.resultsOf(test) {
			if (r.Failure != "") == failed {
				found = append(found, r)
			}
		}
	}
	kind := map[bool]string{true: "a finding", false: "nothing found"}[failed]
	if len(found) != 1 {
		return nil, fmt.Errorf("%s has %d results of %s with %s, want 1: run make proof, or correct the name",
			a.file, len(found), strings.Join(tests, " and "), kind)
	}
	r := found[0]
	if !failed && r.Tried != r.Planned {
		return nil, fmt.Errorf("%s: %s tried %d of %d deviations with %s: run make proof on a less busy machine",
			a.file, r.Test, r.Tried, r.Planned, r.Version)
	}
	a.shown[r] = true
	return r, nil
}

// forgotten returns an error if there is a result that the page does not show,
// or a finding that it does not list.
func (a *runResults) forgotten() error {
	for _, r := range a.order {
		if !a.shown[r] {
			return fmt.Errorf("%s:%d: internal/proof/published/page/proof.md does not show the result of %s: give it a "+
				"row there",
				a.file, a.lines[r], name(r))
		}
	}
	if len(a.pending) > 0 {
		return fmt.Errorf("internal/proof/published/page/proof.md has no {{findings}} after the table with %s: add it",
			a.pending[0].Test)
	}
	return nil
}
