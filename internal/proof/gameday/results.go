package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// report contains the observations during one incident. Its JSON is a line of
// the file with the results.
type report struct {
	Name    string    `json:"name"` // the name of the incident
	Played  time.Time `json:"played"`
	Commit  string    `json:"commit"`            // the commit of the program
	Failure string    `json:"failure,omitempty"` // why the incident could not be played to its end

	Alerts []alert       `json:"alerts"` // the alerts that fire a minute after the first alert
	After  time.Duration `json:"after"`  // the time until the first alert or the limit, as if the rules were not shortened
	Lines  []string      `json:"lines"`  // the last errors in the logs; see errorLines
	Page   []string      `json:"page"`   // the lines of /readyz that are not ok; see notReady
	Healed time.Duration `json:"healed"`
	Place  int           `json:"place,omitempty"` // the number of the folder with the evidence, or 0

	evidence evidence
}

// outputs contains the names of the files and of the directory to write. An
// output with an empty name is not written.
type outputs struct {
	page, picture, folders, results string

	commit  string // the commit of the program
	runbook string // the file with the runbook
}

// write adds a report to the others, and writes the results, the page, the
// folder of the incident and the file with the solutions. The report takes the
// place of an earlier one about the same incident.
func (o *outputs) write(seen []report, last *report) ([]report, error) {
	last.Commit = o.commit
	isLast := func(r report) bool { return r.Name == last.Name }
	if index := slices.IndexFunc(seen, isLast); index >= 0 {
		last.Place = seen[index].Place
	}
	var err error
	if o.folders != "" {
		err = o.saveFolder(last)
	}
	seen = append(slices.DeleteFunc(seen, isLast), *last)
	slices.SortStableFunc(seen, func(a, b report) int { return cmp.Compare(position(a.Name), position(b.Name)) })
	err = errors.Join(err, save(o.results, resultsText(seen)), save(o.page, page(incidents, seen)))
	if o.folders != "" {
		err = errors.Join(err, save(filepath.Clean(o.folders)+"-solutions.md", key(incidents, seen)))
	}
	return seen, err
}

// position returns the index of an incident in the list. Incidents that are no
// longer in the list come after all others.
func position(name string) int {
	if i := slices.IndexFunc(incidents, func(i incident) bool { return i.name == name }); i >= 0 {
		return i
	}
	return len(incidents)
}

// saveFolder writes the evidence of r into the folder with the number of the
// incident, and removes the older evidence in it. A new number is random,
// because the order of the folders must not reveal the incidents.
func (o *outputs) saveFolder(r *report) error {
	const numbers = 100
	for _, n := range rand.Perm(numbers) {
		if _, err := os.Stat(o.folder(n + 1)); r.Place == 0 && errors.Is(err, fs.ErrNotExist) {
			r.Place = n + 1
		}
	}
	runbook, err := os.ReadFile(o.runbook)
	if err != nil {
		return err
	}
	seen := r.evidence
	seen["runbook.md"] = sections(string(runbook), alertNames(r.Alerts))
	if err := os.RemoveAll(o.folder(r.Place)); err != nil {
		return err
	}
	return seen.save(o.folder(r.Place))
}

func (o *outputs) folder(n int) string { return filepath.Join(o.folders, fmt.Sprintf("%02d", n)) }

// sections returns the sections of a document with these headings.
func sections(document string, headings []string) string {
	var found strings.Builder
	for _, heading := range headings {
		if _, rest, ok := strings.Cut(document, "\n### "+heading+"\n"); ok {
			text, _, _ := strings.Cut(rest, "\n### ")
			text, _, _ = strings.Cut(text, "\n## ")
			found.WriteString("### " + heading + "\n" + text + "\n")
		}
	}
	return found.String()
}

// readResults returns the results in the named file, or no results if the file
// does not exist.
func readResults(file string) ([]report, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var seen []report
	lines := json.NewDecoder(bytes.NewReader(text))
	for {
		var r report
		switch err := lines.Decode(&r); {
		case errors.Is(err, io.EOF):
			return seen, nil
		case err != nil:
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		seen = append(seen, r)
	}
}

// resultsText returns the content of the file with the results.
func resultsText(seen []report) string {
	var b strings.Builder
	lines := json.NewEncoder(&b)
	lines.SetEscapeHTML(false)
	for _, r := range seen {
		_ = lines.Encode(r) // a report has no value without JSON
	}
	return b.String()
}

// commitOf returns the commit of the work tree, with a remark if files have
// been changed since that commit. It returns "unknown" if git fails.
func commitOf(ctx context.Context, root string) string {
	output, err := exec.CommandContext(ctx, "git", "-C", root, "describe", "--always", "--exclude=*",
		"--dirty= and changes").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(output))
}

// save writes text to the file with this name, unless the name is empty.
func save(file, text string) error {
	if file == "" {
		return nil
	}
	return os.WriteFile(file, []byte(text), 0o644) //nolint:gosec // a document
}
