package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/homeostat/homeostat/internal/proof/published/results"
)

// source is the template of the page, without the figures. Its functions are
// methods of [runResults].
//
//go:embed proof.md
var source string

// page returns the page for the results. source is the text of its template.
func (a *runResults) page(source string) ([]byte, error) {
	t, err := template.New("internal/proof/published/page/proof.md").Funcs(template.FuncMap{
		"workload": a.workload,
		"pair":     a.pair,
		"findings": a.findings,
		"finding":  a.finding,
		"runs":     a.runRows,
		"perRun":   a.perRun,
	}).Parse(source)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("<!-- Made by make proof, of proof/results.jsonl and internal/proof/published/page/proof.md: " +
		"do not edit. -->\n\n")
	if err := t.Execute(&b, nil); err != nil {
		return nil, err
	}
	return b.Bytes(), a.forgotten()
}

// workload returns the table cells of a controller that is explored twice:
// until the first finding, and to the end.
func (a *runResults) workload(test string) (string, error) {
	found, err := a.single(true, test)
	if err != nil {
		return "", err
	}
	rest, err := a.single(false, test+"/ToTheEnd")
	if err != nil {
		return "", err
	}
	a.pending = append(a.pending, found)
	return cells(found.Version, count(found.Calls), count(found.Planned), count(found.Deviations()),
		seconds(found.Elapsed), plan(rest)), nil
}

// pair returns the table cells of two versions, one with a bug and one without
// it. Both are explored by the same test, or by one test each.
func (a *runResults) pair(tests ...string) (string, error) {
	bug, err := a.single(true, tests[0])
	if err != nil {
		return "", err
	}
	fixed, err := a.single(false, tests[len(tests)-1])
	if err != nil {
		return "", err
	}
	a.pending = append(a.pending, bug)
	return cells(bug.Version, "`"+bug.Oracle+"`", count(bug.Deviations()), seconds(bug.Elapsed), seconds(bug.Processor),
		count(bug.Lines), fixed.Version, plan(fixed)), nil
}

// plan describes an exploration: how much of its plan it tried, how many
// findings were known, and how long it took.
func plan(r *results.Result) string {
	text := fmt.Sprintf("%s of %s", count(r.Tried), count(r.Planned))
	if r.Pairs > 0 {
		text += fmt.Sprintf(", %s pairs", count(r.Pairs))
	}
	if !r.Ended {
		text += " until the budget was used up"
	}
	if r.Known > 0 {
		text += fmt.Sprintf("; %s known", count(r.Known))
	}
	return text + "; " + seconds(r.Elapsed) + " s"
}

// findings returns the findings of the table cells that were made since its
// last call, as Markdown.
func (a *runResults) findings() string {
	var b strings.Builder
	for _, r := range a.pending {
		b.WriteString(details(r))
	}
	a.pending = nil
	return strings.TrimSuffix(b.String(), "\n\n")
}

// finding returns the finding of one test, as Markdown.
func (a *runResults) finding(test string) (string, error) {
	r, err := a.single(true, test)
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(details(r), "\n\n"), nil
}

// shown is how many lines of a finding are visible before it is unfolded.
const shown = 4

// details returns a failure as a <details> element. Its summary shows the first
// lines of the failure, without the replay token.
func details(r *results.Result) string {
	found, _, _ := strings.Cut(r.Failure, "\n  replay: ")
	var b strings.Builder
	fmt.Fprintf(&b, "<details>\n<summary>%s %s, %s: ", r.Module, r.Version, r.Test)
	for i, line := range strings.Split(found, "\n") {
		if i == shown {
			b.WriteString("<br>…")
			break
		}
		fmt.Fprintf(&b, "<br><code>%s</code>", html.EscapeString(strings.TrimSpace(line)))
	}
	fmt.Fprintf(&b, "</summary>\n\n```text\n%s\n```\n\n</details>\n\n", strings.TrimRight(r.Failure, "\n"))
	return b.String()
}

// runRows returns the rows of a table, one for each run: how many explorations
// it had, what they took, and where and when it was.
func (a *runResults) runRows() string {
	var rows []string
	for _, run := range a.runs {
		var elapsed, used float64
		for _, r := range run.results {
			elapsed += r.Elapsed
			used += r.Processor
		}
		rows = append(rows, "| "+cells(count(len(run.results)), minutes(elapsed), minutes(used), run.Commit, run.Date,
			run.Go+" for "+run.Platform, strconv.Itoa(run.Cores), fmt.Sprint(run.Load))+" |")
	}
	return strings.Join(rows, "\n")
}

// minutes formats a number of seconds as minutes and seconds.
func minutes(s float64) string { return (time.Duration(s) * time.Second).String() }

// perRun returns a text with the least and the most processor time of a run,
// each as the average of one exploration. It ignores explorations with a
// finding, because they also spend time on shrinking the failure.
func (a *runResults) perRun() string {
	least, largest := math.Inf(1), 0.0
	for _, r := range a.order {
		if r.Failure == "" && r.Runs > 0 {
			average := 1000 * r.Processor / float64(r.Runs)
			least, largest = min(least, average), max(largest, average)
		}
	}
	return fmt.Sprintf("%.0f to %.0f ms", least, largest)
}

func cells(text ...string) string { return strings.Join(text, " | ") }

// count returns n as text with a comma before each three digits.
func count(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// seconds formats a number with two digits, or more if there are more before
// the point.
func seconds(s float64) string {
	if s < 10 {
		return strconv.FormatFloat(s, 'f', 1, 64)
	}
	return count(int(math.Round(s)))
}
