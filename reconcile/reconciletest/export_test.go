package reconciletest

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
)

// Hangs sets how long a run may take in real time.
func Hangs(d time.Duration) { maxRunTime = d }

// ReplayText is like Replay, but returns the failure and does not fail the
// test.
func ReplayText(t *testing.T, c *Case, o *Options, token string) string {
	t.Helper()
	return replay(t, c, o, token)
}

// Hashes makes the runs without faults and with each single deviation, and
// returns the hashes of their traces.
func Hashes(t *testing.T, c *Case) []string {
	t.Helper()
	x := newExplorer(t, c, nil)
	x.begin()
	for _, p := range x.planner().singles() {
		x.play(p, setting{seed: 1})
	}
	return x.hashes
}

// Repeat makes the run without faults n times, and returns the hashes of the
// traces.
func Repeat(t *testing.T, c *Case, times int) []string {
	t.Helper()
	x := newExplorer(t, c, nil)
	for range times {
		x.play(nil, setting{seed: 1})
	}
	return x.hashes
}

// SeedHashes plays each seed n times, and returns the hashes of the traces.
func SeedHashes(t *testing.T, c *Case, seeds, times int) [][]string {
	t.Helper()
	x := newExplorer(t, c, nil)
	if !x.begin() {
		t.Fatal(x.report.Failure)
	}
	singles := x.planner().singles()
	all := make([][]string, seeds)
	for range times { // seed by seed, so that no two runs of the same are neighbours
		for seed := range all {
			all[seed] = append(all[seed], x.play(seeded(seed+1, singles), setting{seed: 1}).hash())
		}
	}
	return all
}

// Tried explores, and returns the plans that were tried, in order, along with
// the report.
func Tried(t *testing.T, c *Case, o *Options) ([]string, *Report) {
	t.Helper()
	x := newExplorer(t, c, o)
	x.explore()
	return x.tried, x.report
}

// Traced explores, calls f with the trace of each run, and returns the report.
func Traced(t *testing.T, c *Case, o *Options, f func(lines []string)) *Report {
	t.Helper()
	x := newExplorer(t, c, o)
	x.traced = f
	return x.search()
}

// TraceOf plays the case under the plan of a token, and returns the trace and
// the finding.
func TraceOf(t *testing.T, c *Case, o *Options, text string) (lines []string, found string) {
	t.Helper()
	x := newExplorer(t, c, o)
	if !x.begin() {
		t.Fatal(x.report.Failure)
	}
	p, err := plan.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	out := x.play(p, setting{seed: 1})
	if x.judge(p, out); out.finding != nil {
		found = out.finding.Text
	}
	return out.lines, found
}

// FailureOf plays the case under the single deviations that match, and returns
// the report of the first that fails.
func FailureOf(t *testing.T, c *Case, o *Options, match string) *Report {
	t.Helper()
	x := newExplorer(t, c, o)
	if !x.begin() {
		return x.report
	}
	for _, p := range slices.Concat(x.planner().singles(), x.planner().outages()) {
		if regexp.MustCompile(match).MatchString(p.String()) && !x.try(p) {
			break
		}
	}
	return x.report
}

// BudgetOf returns the budget, and whether everything has to be tried.
func BudgetOf(o *Options) (time.Duration, bool, error) {
	err := o.spend()
	v := o.withDefaults()
	return v.Budget, v.strict, err
}

// Share reads the part of a process from a text.
func Share(o *Options, text string) error { return o.share(text) }

// Alike returns the tokens' plans that the plan of a text may become when it is
// made smaller.
func Alike(t *testing.T, c *Case, text string) []string {
	t.Helper()
	x := newExplorer(t, c, nil)
	if !x.begin() {
		t.Fatal(x.report.Failure)
	}
	p, err := plan.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, other := range x.alike(p) {
		all = append(all, other.String())
	}
	return all
}

// Reasons returns the reasons of what the run without faults finds, or else the
// plans that match, up to the first that is wanted.
func Reasons(t *testing.T, c *Case, o *Options, match, want string) []string {
	t.Helper()
	x := newExplorer(t, c, o)
	if !x.begin() {
		return []string{x.report.Reason}
	}
	singles := x.planner().singles()
	all := slices.Concat(singles, x.planner().outages())
	for seed := range 20 {
		all = append(all, plan.Plan{{Kind: plan.Shuffled, Index: seed + 1}})
	}
	var reasons []string
	for _, p := range all {
		if !regexp.MustCompile(match).MatchString(p.String()) {
			continue
		}
		out := x.play(p, setting{seed: 1})
		if x.assess(p, out); out.finding == nil {
			continue
		}
		(&example{x: x, p: p, out: out}).explain()
		if reasons = append(reasons, string(out.finding.Reason)); reasons[len(reasons)-1] == want {
			break
		}
	}
	return reasons
}
