package reconciletest

import (
	"fmt"
	"slices"
	"strings"
)

const (
	showAll  = 60 // lines of a trace that are shown whole
	showLast = 40
	showLoop = 12 // of one that never comes to rest
)

// fail puts the counter-example into the report, as small as it gets.
func (x *explorer) fail(p plan, out *outcome) {
	if !x.quiet {
		runs := x.report.Runs
		x.report.tell(smallest(example{x: x, p: p, out: out}))
		x.report.Runs = runs
	}
}

// tell fills in what is known of a counter-example.
func (r *Report) tell(e example) {
	r.Token = token(e.p, e.out.hash(), e.x.less)
	r.Oracle = e.out.finding.oracle
	r.Trace = e.out.lines
	if upTo := e.out.finding.upTo; upTo > 0 {
		r.Trace = e.out.lines[:upTo]
	}
	r.Trace = foldReads(r.Trace)
	r.Failure = r.describe(e)
}

// describe is the failure as a person reads it.
func (r *Report) describe(e example) string {
	what := e.p.words()
	if len(e.p) == 0 {
		what = "without any fault"
	}
	what += ": " + e.out.finding.text + "\n  replay: " + r.Token
	if out := e.x.less.words(e.x.whole); out != "" {
		what += "\n  without: " + out
	}
	return r.words(what, e.p, e.out.finding)
}

// words are what is wrong, the trace, and the hint.
func (r *Report) words(what string, p plan, f *finding) string {
	var b strings.Builder
	b.WriteString(what + "\n")
	from := 0
	switch {
	case f.oracle == oracleRest:
		from = len(r.Trace) - showLoop
	case len(r.Trace) > showAll:
		from = len(r.Trace) - showLast
	}
	for i, l := range r.Trace {
		mark := " "
		if disturbed(l) || i == len(r.Trace)-1 && blamesTheLast(f.oracle) {
			mark = ">"
		}
		if i >= from || mark == ">" {
			fmt.Fprintf(&b, " %s%4d %s\n", mark, i+1, l)
		}
	}
	if h := hint(p, f); h != "" {
		fmt.Fprintf(&b, "  hint: %s\n", h)
	}
	return b.String()
}

// foldReads puts lists and watches that follow each other into one line.
func foldReads(lines []string) []string {
	var all, resources []string
	flush := func() {
		if len(resources) > 0 {
			all = append(all, "call      list and watch "+strings.Join(resources, ", "))
			resources = nil
		}
	}
	for _, l := range lines {
		resource, reads := readOf(l)
		if !reads {
			flush()
			all = append(all, l)
		} else if !slices.Contains(resources, resource) {
			resources = append(resources, resource)
		}
	}
	flush()
	return all
}

// readOf returns the resource of a list or watch that nothing strikes.
func readOf(line string) (string, bool) {
	for _, begin := range []string{"call      list ", "call      watch "} {
		if rest, found := strings.CutPrefix(line, begin); found && !disturbed(line) {
			return strings.Join(strings.Fields(rest), " "), true
		}
	}
	return "", false
}

// blamesTheLast tells whether the last line is what the oracle found.
func blamesTheLast(oracle string) bool {
	return slices.Contains([]string{oracleAlways, oracleTail, oracleLeader, oraclePast, oracleLost}, oracle)
}

// disturbed lines are shown however long the trace is.
func disturbed(line string) bool {
	for _, begin := range []string{
		"HELD BACK", "APART", "STOP", "RIVAL", "ASLEEP", "others", "down", "restart   the", "thaw",
	} {
		if strings.HasPrefix(line, begin) {
			return true
		}
	}
	return strings.Contains(line, "<<<")
}
