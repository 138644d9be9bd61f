// Package report puts a finding of an oracle into words: the finding, the trace
// that leads to it, and a hint.
package report

import (
	"fmt"
	"slices"
	"strings"
)

// The oracles: each tells a wrong run from a right one by one rule.
const (
	Run      = "run"      // Run returns only when its context has ended
	Stop     = "stop"     // Run returns in time, and no goroutine is left behind
	Workload = "workload" // the workload works without faults
	Rest     = "rest"     // the program comes to rest
	Goal     = "goal"     // the goal holds at rest
	Always   = "always"   // the invariant holds after every write
	Tail     = "tail"     // at rest a restart writes nothing
	State    = "state"    // the state at rest is that of the run without faults
	Counts   = "counts"   // a slow watch or a failed read alone does not make it have or delete more
	Leader   = "leader"   // only the replica that holds the Lease writes
	Watch    = "watch"    // the program watches everything it writes and reads
	Past     = "past"     // a stale cache does not make it delete wanted objects
	Lost     = "lost"     // writes of other clients are not lost
	Mutation = "mutation" // the program does not modify objects of a cache
	Cache    = "cache"    // at rest a cache matches the server
	Stay     = "stay"     // the state at rest stays the same
	Amplify  = "amplify"  // a fault does not multiply the writes
	Status   = "status"   // at rest a status is of the spec that is there
	Vain     = "vain"     // without faults the program does something, and not only errs
	Role     = "role"     // its Role grants all its calls, and nothing more
	Others   = "others"   // what a lasting refusal does not strike ends as without it
	Retry    = "retry"    // a request that the server has put off is not repeated before its time
)

// Error begins a line of the trace with an error that the program has logged.
// Later begins a line that says how much time has passed since the line before.
// Answered stands in the line of a call before the error that the server has
// answered.
const (
	Error    = "error     "
	Later    = "later     "
	Answered = "   → "
)

// Hashed returns the part of a line that tokens hash, and false if the line
// does not count at all. The place of a call in the code does not count, so
// that a token survives refactoring. Answers and times follow from the rest,
// and the order of errors is not deterministic.
func Hashed(line string) (string, bool) {
	text, _, _ := strings.Cut(line, "   (")
	text, _, _ = strings.Cut(text, Answered)
	return text, !strings.HasPrefix(line, Error) && !strings.HasPrefix(line, Later)
}

// Finding is one fault that an oracle found.
type Finding struct {
	Oracle string
	Reason Reason
	Text   string
	UpTo   int // the lines of the trace that matter; 0: all
}

// OfCache returns the oracle and the reason to report for a cache that differs
// from the server. edited is true if the program has modified a cached object.
func OfCache(edited bool) (oracle string, why Reason) {
	if edited {
		return Mutation, Modified
	}
	return Cache, MissedDeletion
}

// Trace returns the lines up to the finding. Lists and watches that follow each
// other become one line.
func (f *Finding) Trace(lines []string) []string {
	if f.UpTo > 0 {
		lines = lines[:f.UpTo]
	}
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

// Differ finds the first difference between two traces, among the program's
// requests at a known place; only the first n lines of the second count.
// client-go decides when watches start again.
func Differ(first, again []string, n int) (a, b string, differ bool) {
	calls := func(lines []string) []string {
		return slices.DeleteFunc(slices.Clone(lines), func(l string) bool {
			return !strings.HasPrefix(l, "call ") || !strings.Contains(l, "   (")
		})
	}
	first, again = calls(first), calls(again[:min(n, len(again))])
	for i := range min(len(first), len(again)) {
		one, _, _ := strings.Cut(first[i], Answered)
		other, _, _ := strings.Cut(again[i], Answered)
		if one != other {
			return first[i], again[i], true
		}
	}
	return "", "", false
}

// readOf returns the resource of a list or watch without a fault.
func readOf(line string) (string, bool) {
	for _, begin := range []string{"call      list ", "call      watch "} {
		if rest, found := strings.CutPrefix(line, begin); found && !disturbed(line) && !strings.Contains(line, Answered) {
			return strings.Join(strings.Fields(rest), " "), true
		}
	}
	return "", false
}

const (
	showAll  = 60 // lines of a trace that are shown whole
	showLast = 40
	showLoop = 12 // lines of a run that never comes to rest
)

// Words returns the failure for a developer: the plan, the finding, the trace
// and the hint. Important lines are marked with >.
func (f *Finding) Words(what string, trace []string) string {
	var b strings.Builder
	b.WriteString(what + "\n")
	from := 0
	switch {
	case f.Oracle == Rest:
		from = len(trace) - showLoop
	case len(trace) > showAll:
		from = len(trace) - showLast
	}
	for i, l := range trace {
		mark := " "
		if disturbed(l) || i == len(trace)-1 && (blamesLastLine(f.Oracle) || f.Oracle == Vain && f.UpTo > 0) {
			mark = ">"
		}
		if i >= from || mark == ">" {
			fmt.Fprintf(&b, " %s%4d %s\n", mark, i+1, l)
		}
	}
	if hint := f.Reason.Hint(); hint != "" {
		fmt.Fprintf(&b, "  hint: %s\n", hint)
	}
	return b.String()
}

// blamesLastLine reports whether the oracle's finding is about the last line.
func blamesLastLine(oracle string) bool {
	return slices.Contains([]string{Always, Tail, Leader, Past, Lost, Role}, oracle)
}

// disturbed lines are shown in full, however long the trace is.
func disturbed(line string) bool {
	return strings.Contains(line, "<<<") || slices.ContainsFunc([]string{
		"HELD BACK", "APART", "REFUSED", "STOP", "RIVAL", "ASLEEP", "others", "down", "restart   the", "thaw",
	}, func(begin string) bool { return strings.HasPrefix(line, begin) })
}
