package reconciletest

import (
	"fmt"
	"strings"

	"github.com/homeostat/homeostat/internal/apisim"
)

const staleCache = "it trusts a cache that has not seen its own writes: " +
	"wait for it, or give children names that do not depend on it"

const (
	showAll  = 60 // lines of a trace that are shown whole
	showLast = 40
)

// fail puts the counter-example into the report.
func (x *explorer) fail(p plan, out *outcome) {
	x.report.Token = token(p, out.hash(), x.less)
	x.report.Oracle = out.finding.oracle
	x.report.Trace = out.lines
	if upTo := out.finding.upTo; upTo > 0 {
		x.report.Trace = out.lines[:upTo]
	}
	x.report.Failure = describe(p, out, x.report.Token)
}

// describe is the failure as a person reads it.
func describe(p plan, out *outcome, token string) string {
	var b strings.Builder
	what := p.words()
	if len(p) == 0 {
		what = "without any fault"
	}
	fmt.Fprintf(&b, "%s: %s\n", what, out.finding.text)
	fmt.Fprintf(&b, "  replay: %s\n", token)
	lines, from := out.lines, 0
	if upTo := out.finding.upTo; upTo > 0 {
		lines = lines[:upTo]
	}
	if len(lines) > showAll {
		from = len(lines) - showLast
	}
	for i, l := range lines {
		if i >= from || disturbed(l) {
			fmt.Fprintf(&b, "  %4d %s\n", i+1, l)
		}
	}
	if h := hint(p, out.finding.oracle); h != "" {
		fmt.Fprintf(&b, "  hint: %s\n", h)
	}
	return b.String()
}

// disturbed lines are shown however long the trace is.
func disturbed(line string) bool {
	for _, begin := range []string{"HELD BACK", "APART", "others", "down"} {
		if strings.HasPrefix(line, begin) {
			return true
		}
	}
	return strings.Contains(line, "<<<")
}

// hint says what mostly is behind it.
func hint(p plan, oracle string) string {
	switch oracle {
	case oracleRest:
		return "a reconciler that writes every time wakes itself: compare before you write"
	case oracleTail:
		return "the first look at an object writes although nothing is to do: " +
			"compare before you write, keep times that did not change"
	case oracleWatch:
		return "give the controller a trigger for every kind that it writes (reconcile.Owned), " +
			"or name it in Case.Unwatched"
	case oracleLeader:
		return "a leader that may have lost its Lease must not write: leader.Elector.Fence makes clients that do not"
	case oracleStop, oracleRun:
		return "Run has to wait for every goroutine that it starts, and to end only with its context"
	case oracleCounts:
		return staleCache
	}
	for _, d := range p {
		if text := hintFor(d); text != "" {
			return text
		}
	}
	return ""
}

func hintFor(d deviation) string {
	switch {
	case d.at == 'x':
		return "nobody puts back what was deleted: is there a trigger for this kind that finds the owner?"
	case d.at == 'd' && d.fault == hold:
		return staleCache
	case d.at == 'd':
		return "events can be lost: decide by the state that is there, not by the events that came"
	case d.fault == apisim.LostReply, d.fault == apisim.Late:
		return "a timeout does not say that nothing was written: " +
			"names that follow from the owner make the second try harmless"
	case d.fault == apisim.CrashAfter, d.fault == apisim.CrashBefore:
		return "the next boot must find the work half done: write what says that it is done last"
	case d.at == 'c':
		return "an error of one call must lead to another try"
	case d.at == 'p':
		return "calls that hang, and then time out, must lead to another try"
	case d.at == 'w':
		return "the object changed in the middle of its own reconciling"
	}
	return ""
}
