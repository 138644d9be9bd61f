// Package report puts a finding of an oracle into words: the finding, the trace
// that leads to it, and a hint.
package report

import (
	"fmt"
	"slices"
	"strings"
)

// These are the oracles. An oracle is a rule that every correct run follows.
const (
	Run      = "run"      // Run returns only when its context has ended
	Stop     = "stop"     // Run returns in time, and no goroutine is left behind
	Workload = "workload" // the workload works without faults
	Rest     = "rest"     // the program comes to rest
	Goal     = "goal"     // the goal holds at rest
	Always   = "always"   // the invariant holds after every write
	Tail     = "tail"     // at rest a restart writes nothing
	State    = "state"    // the state at rest is the same as in the run without faults
	Counts   = "counts"   // a slow watch, a slow call or a failed read alone does not lead to more creates or deletes
	Leader   = "leader"   // only the replica that holds the Lease writes
	Watch    = "watch"    // the program watches every resource that it writes or reads
	Past     = "past"     // a stale cache or a foreign 404 does not make the program delete objects that are needed
	Lost     = "lost"     // writes of other clients are not lost
	Mutation = "mutation" // the program does not modify objects of a cache
	Cache    = "cache"    // at rest a cache matches the server
	Stay     = "stay"     // the state at rest stays the same
	Amplify  = "amplify"  // a fault does not multiply the writes
	Status   = "status"   // at rest, each status that the program has written describes the current generation
	Vain     = "vain"     // the program does its work, and does not end up repeating an error or a refused write
	Role     = "role"     // the program's Role grants all of its calls, and nothing more
	Others   = "others"   // a lasting refusal or an undecodable object does not change unrelated objects at the end
	Owner    = "owner"    // an owner reference leads to an object that exists or existed
	Retry    = "retry"    // a request that the server has postponed is not repeated early
)

// Error is the prefix of a trace line with an error that the program has
// logged. Elapsed is the prefix of a line that says how much time has passed
// since the previous line. Answered precedes the server's error in the line of
// a call.
const (
	Error    = "error     "
	Elapsed  = "later     "
	Answered = "   → "
)

// Hashed returns the part of a trace line that tokens hash, and false if tokens
// ignore the line. The location of a call in the code is ignored, because a
// token should survive refactoring. Answers and times are ignored because they
// follow from the rest, and errors because their order is not deterministic.
func Hashed(line string) (string, bool) {
	text, _, _ := strings.Cut(line, "   (")
	text, _, _ = strings.Cut(text, Answered)
	return text, !strings.HasPrefix(line, Error) && !strings.HasPrefix(line, Elapsed)
}

// Finding is a bug of the program that an oracle found.
type Finding struct {
	Oracle string
	Reason Reason
	Text   string
	UpTo   int // the number of lines of the trace to show; 0 means all
}

// OfCache returns the oracle and the reason to report for a cache that differs
// from the server. edited is true if the program has modified a cached object.
func OfCache(edited bool) (oracle string, reason Reason) {
	if edited {
		return Mutation, Modified
	}
	return Cache, MissedDeletion
}

// Trace returns the lines up to the finding. It combines consecutive lists and
// watches in one line.
func (f *Finding) Trace(lines []string) []string {
	if f.UpTo > 0 {
		lines = lines[:f.UpTo]
	}
	var shown, resources []string
	flush := func() {
		if len(resources) > 0 {
			shown = append(shown, "call      list and watch "+strings.Join(resources, ", "))
			resources = nil
		}
	}
	for _, l := range lines {
		resource, reads := readOf(l)
		if !reads {
			flush()
			shown = append(shown, l)
		} else if !slices.Contains(resources, resource) {
			resources = append(resources, resource)
		}
	}
	flush()
	return shown
}

// Differ returns the first lines in which two traces differ. Of the second
// trace, it compares only the first n lines. Of both, it compares only requests
// of the program whose location in the code is known. Other requests, such as
// restarts of watches, depend on client-go. Traces do not differ if one of them
// is the beginning of the other.
func Differ(first, second []string, n int) (a, b string, differ bool) {
	calls := func(lines []string) []string {
		return slices.DeleteFunc(slices.Clone(lines), func(l string) bool {
			return !strings.HasPrefix(l, "call ") || !strings.Contains(l, "   (")
		})
	}
	first, second = calls(first), calls(second[:min(n, len(second))])
	for i := range min(len(first), len(second)) {
		firstText, _, _ := strings.Cut(first[i], Answered)
		secondText, _, _ := strings.Cut(second[i], Answered)
		if firstText != secondText {
			return first[i], second[i], true
		}
	}
	return "", "", false
}

// readOf returns what a line lists or watches, if the line is a list or watch
// without a fault. It returns false for other lines.
func readOf(line string) (string, bool) {
	for _, begin := range []string{"call      list ", "call      watch "} {
		if rest, found := strings.CutPrefix(line, begin); found && !disturbed(line) && !strings.Contains(line, Answered) {
			return strings.Join(strings.Fields(rest), " "), true
		}
	}
	return "", false
}

const (
	showAll  = 60 // a trace of at most this many lines is shown in full, if the run comes to rest
	showLast = 40
	showLoop = 12 // how many of the last lines are shown of a run that never comes to rest
)

// Words returns text, followed by the trace and the hint. text describes the
// plan and the finding. Important lines of the trace are marked with >. If the
// trace is long, or if the program never comes to rest, Words shows only the
// last lines and the important ones.
func (f *Finding) Words(text string, trace []string) string {
	var b strings.Builder
	b.WriteString(text + "\n")
	start := 0
	switch {
	case f.Oracle == Rest:
		start = len(trace) - showLoop
	case len(trace) > showAll:
		start = len(trace) - showLast
	}
	for i, l := range trace {
		mark := " "
		if disturbed(l) || i == len(trace)-1 && (blamesLastLine(f.Oracle) || f.Oracle == Vain && f.UpTo > 0) {
			mark = ">"
		}
		if i >= start || mark == ">" {
			fmt.Fprintf(&b, " %s%4d %s\n", mark, i+1, l)
		}
	}
	if hint := f.Reason.Hint(); hint != "" {
		fmt.Fprintf(&b, "  hint: %s\n", hint)
	}
	return b.String()
}

// blamesLastLine reports whether the oracle's findings are about the last line
// of the trace.
func blamesLastLine(oracle string) bool {
	return slices.Contains([]string{Always, Tail, Leader, Past, Lost, Role}, oracle)
}

// disturbed reports whether a line is about a deviation. Such lines are shown
// even if the trace is too long to be shown in full.
func disturbed(line string) bool {
	return strings.Contains(line, "<<<") || slices.ContainsFunc([]string{
		"HELD BACK", "APART", "REFUSED", "STOP", "RIVAL", "ASLEEP", "others", "down", "restart   the", "thaw",
	}, func(begin string) bool { return strings.HasPrefix(line, begin) })
}
