package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/homeostat/homeostat/internal/proof/published/results"
)

// all are the results of one run of make proof.
type all struct {
	machine

	file  string
	order []*results.Result
	shown map[*results.Result]bool
	// pending are the findings of tables since the last list of findings.
	pending []*results.Result
}

// read parses results.
//
// Errors: they name the file, its line, and a remedy.
func read(text []byte, file string) (*all, error) {
	a := &all{file: file, shown: map[*results.Result]bool{}}
	seen := map[string]bool{}
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		fail := func(err error) error { return fmt.Errorf("%s:%d: %w: run make proof again", file, i+1, err) }
		if i == 0 {
			if err := decode(line, &a.machine); err != nil {
				return nil, fail(err)
			}
			if a.Commit == "" || a.Date == "" {
				return nil, fail(errors.New("the first line is not about the machine"))
			}
			continue
		}
		r := &results.Result{}
		if err := decode(line, r); err != nil {
			return nil, fail(err)
		}
		key := r.Test + " with " + r.Version
		switch {
		case r.Test == "" || r.Version == "":
			return nil, fail(errors.New("a result has no test or no version"))
		case seen[key]:
			return nil, fail(fmt.Errorf("a second result of %s", key))
		}
		seen[key] = true
		a.order = append(a.order, r)
	}
	return a, nil
}

// decode parses one line of JSON. An unknown field is an error.
func decode(line string, into any) error {
	d := json.NewDecoder(strings.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("reading a line of JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("reading a line of JSON: more data after its end")
	}
	return nil
}

// of returns the results of a test.
func (a *all) of(test string) []*results.Result {
	var found []*results.Result
	for _, r := range a.order {
		if r.Test == test {
			found = append(found, r)
		}
	}
	return found
}

// one returns the result of a test, or of two tests, with or without a finding.
func (a *all) one(failed bool, tests ...string) (*results.Result, error) {
	var found []*results.Result
	for _, test := range tests {
		for _, r := range a.of(test) {
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
		return nil, fmt.Errorf("%s: %s tried %d of %d deviations with %s: run make proof on a machine with less to do",
			a.file, r.Test, r.Tried, r.Planned, r.Version)
	}
	a.shown[r] = true
	return r, nil
}

// forgotten returns an error for results that the page does not show.
func (a *all) forgotten() error {
	for i, r := range a.order {
		if !a.shown[r] {
			return fmt.Errorf("%s:%d: internal/proof/published/page/proof.md does not show the result of %s with %s: give it a "+
				"row there", a.file, i+2, r.Test, r.Version)
		}
	}
	if len(a.pending) > 0 {
		return fmt.Errorf("internal/proof/published/page/proof.md has no {{findings}} after the table with %s: add it",
			a.pending[0].Test)
	}
	return nil
}
