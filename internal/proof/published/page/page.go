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

// source is the page without its figures. It is a template that uses the
// functions of [all.page].
//
//go:embed proof.md
var source string

// page returns the page for the results, made from the template source.
func (a *all) page(source string) ([]byte, error) {
	t, err := template.New("internal/proof/published/page/proof.md").Funcs(template.FuncMap{
		"workload": a.workload,
		"pair":     a.pair,
		"findings": a.findings,
		"finding":  a.finding,
		"total":    a.total,
		"perRun":   a.perRun,
	}).Parse(source)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("<!-- Made by make proof, of proof/results.jsonl and internal/proof/published/page/proof.md: " +
		"do not edit. -->\n\n")
	if err := t.Execute(&b, a.machine); err != nil {
		return nil, err
	}
	return b.Bytes(), a.forgotten()
}

// workload returns the cells of a controller that is explored until there is a
// finding, and then to the end.
func (a *all) workload(test string) (string, error) {
	found, err := a.one(true, test)
	if err != nil {
		return "", err
	}
	rest, err := a.one(false, test+"/ToTheEnd")
	if err != nil {
		return "", err
	}
	a.pending = append(a.pending, found)
	return cells(found.Version, count(found.Calls), count(found.Planned), count(found.Deviations()),
		seconds(found.Elapsed), plan(rest)), nil
}

// pair returns the cells of the version with a bug and of the version without
// it. They have the same test, or one test each.
func (a *all) pair(tests ...string) (string, error) {
	bug, err := a.one(true, tests[0])
	if err != nil {
		return "", err
	}
	fixed, err := a.one(false, tests[len(tests)-1])
	if err != nil {
		return "", err
	}
	a.pending = append(a.pending, bug)
	return cells(bug.Version, "`"+bug.Oracle+"`", count(bug.Deviations()), seconds(bug.Elapsed), seconds(bug.Processor),
		count(bug.Lines), fixed.Version, plan(fixed)), nil
}

// plan describes how much of its plan an exploration without a finding has
// tried.
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

// findings returns the findings of the tables since its last call, as text.
func (a *all) findings() string {
	var b strings.Builder
	for _, r := range a.pending {
		b.WriteString(details(r))
	}
	a.pending = nil
	return strings.TrimSuffix(b.String(), "\n\n")
}

// finding returns the finding of one test, as text.
func (a *all) finding(test string) (string, error) {
	r, err := a.one(true, test)
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(details(r), "\n\n"), nil
}

// shown is how many lines of a finding are above its fold.
const shown = 4

// details returns a failure, folded to the first lines above its token.
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

// total returns how many explorations there are, and the time that they took.
func (a *all) total() string {
	var elapsed, used float64
	for _, r := range a.order {
		elapsed += r.Elapsed
		used += r.Processor
	}
	minutes := func(s float64) string {
		return (time.Duration(s) * time.Second).String()
	}
	return fmt.Sprintf("%d explorations in %s, with %s of processor time", len(a.order), minutes(elapsed), minutes(used))
}

// perRun returns the least and the most processor time of a run. It uses only
// explorations without a finding, because the others also shrink a failure.
func (a *all) perRun() string {
	least, most := math.Inf(1), 0.0
	for _, r := range a.order {
		if r.Failure == "" && r.Runs > 0 {
			each := 1000 * r.Processor / float64(r.Runs)
			least, most = min(least, each), max(most, each)
		}
	}
	return fmt.Sprintf("%.0f to %.0f ms", least, most)
}

func cells(text ...string) string { return strings.Join(text, " | ") }

// count writes a number with commas.
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
