package reconciletest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
)

// Explore runs the case without faults, then with each single deviation, then
// with pairs of deviations, and then in random orders by seed. It ends earlier
// when the budget is used up.
//
// It fails the test with the first counter-example, after making it as small as
// possible. The failure says what went wrong, and has the trace, a hint, and a
// token for [Replay]. If all runs pass, Explore logs a summary. If the budget
// was too small for the single deviations, it prints a warning to stderr, or
// fails the test in CI: see [Options].Budget.
//
// Explore returns the report, which is never nil. If the case or the options
// are wrong, it ends the test at once, with Fatal.
//
// Concurrency: while Explore runs, it changes the global source of math/rand,
// sets GODEBUG=randseednop=0 and GOGC=800, and replaces client-go's error
// handlers. So tests that call it cannot be parallel.
func Explore(t *testing.T, c *Case, o *Options) *Report {
	t.Helper()
	x := newExplorer(t, c, o)
	r := x.search()
	if r.Failure != "" {
		t.Error(r.Failure)
		return r
	}
	t.Attr("reconciletest", r.String())
	t.Attr("reconciletest-processor", r.Processor.String())
	if len(r.Unused) > 0 {
		x.say("declared, and never used: " + strings.Join(r.Unused, ", "))
	}
	switch {
	case r.Covered():
		t.Log(r.String())
	case x.o.strict:
		t.Errorf("not everything was tried: %v. Set %s=5m or so, divide the runs by %s=1/4 to 4/4, "+
			"or set reconciletest.Options.Budget", r,
			budgetVariable, shardVariable)
	default:
		x.say("NOT ALL WAS TRIED: " + r.String())
	}
	return r
}

// Search is [Explore], but does not fail the test. It is for tests that show
// that a bug would be found. The counter-example is in [Report].Failure. Search
// may leave single deviations untried, even in CI.
//
// Search returns the report, which is never nil. If the case or the options are
// wrong, it ends the test at once, with Fatal.
func Search(t *testing.T, c *Case, o *Options) *Report {
	t.Helper()
	return newExplorer(t, c, o).search()
}

// search makes the runs of the exploration, and returns the complete report.
func (x *explorer) search() *Report {
	x.t.Helper()
	x.loud = true
	x.explore()
	x.report.Rules = x.rules.Rules()
	x.report.Narrower = x.granted.Narrower(x.rules)
	x.checkGrants()
	x.report.Unused = unused(x)
	x.report.Elapsed, x.report.Processor = time.Since(x.began), processorTime()-x.processor
	return x.report
}

// checkGrants records a finding if Case.Roles grant a right that no run needs.
// It does nothing if the exploration has failed, or if this process has not
// tried all single deviations, because another run may need the right.
func (x *explorer) checkGrants() {
	unused := x.granted.Unused(x.rules, x.c.Unneeded)
	if len(unused) == 0 || x.report.Failure != "" || x.o.Shards > 1 || !x.report.Covered() {
		return
	}
	x.report.Oracle = report.Role
	x.report.Failure = "no run needs these grants: remove them, let the case need them, or name them in Case.Unneeded:" +
		strings.Join(append([]string{""}, unused...), "\n    ")
}

// unused returns declarations of the case or the options that no run needs. It
// returns nil if the exploration has failed, or if this process has not made
// all runs, because another run may need them.
func unused(x *explorer) []string {
	if x.report.Failure != "" || x.o.Shards > 1 || !x.complete {
		return nil
	}
	var entries []string
	add := func(option, entry string) { entries = append(entries, fmt.Sprintf("%s %q", option, entry)) }
	for _, entry := range x.ignore.Unused() {
		add("Case.Ignore", entry)
	}
	uses := x.reference.uses
	for _, resource := range x.c.Unwatched {
		if uses.watched[resource] || !uses.written[resource] && !uses.read[resource] {
			add("Case.Unwatched", resource)
		}
	}
	needless := x.granted.Unused(x.rules, nil)
	for _, rule := range x.c.Unneeded {
		if !slices.ContainsFunc(needless, func(text string) bool { return strings.HasPrefix(text, rule+" (") }) {
			add("Case.Unneeded", rule)
		}
	}
	for _, part := range x.o.KnownFindings {
		if !x.used[part] {
			add("Options.KnownFindings", part)
		}
	}
	return entries
}

// explore makes the runs in order, until one fails or the budget is used up:
// first without faults, then the single deviations and the outages, the pairs,
// and the seeds. Every shard makes all runs without faults, but only every n-th
// of the others.
func (x *explorer) explore() {
	if !x.begin() {
		return
	}
	singles := x.planner().singles()
	plans := append(slices.Clone(singles), x.planner().outages()...)
	x.report.Planned = (len(plans) + x.o.Shards - 1 - x.o.Shard) / x.o.Shards
	var complete bool
	if x.report.Tried, complete = x.tryAll(plans); !complete {
		return
	}
	x.o.Budget -= x.o.singles
	if x.report.Pairs, complete = x.tryAll(x.planner().pairs()); !complete {
		return
	}
	orders := make([]plan.Plan, x.o.Seeds)
	for i := range orders {
		orders[i] = seeded(i+1, singles)
	}
	_, x.complete = x.tryAll(orders)
}

// begin makes the runs without faults. If one fails, it records the failure in
// the report and returns false.
func (x *explorer) begin() bool {
	failed := x.refer()
	if failed != nil {
		x.fail(nil, failed)
	}
	return failed == nil
}

// tryAll plays the plans of this shard until one fails or the budget is used
// up. It returns the number of tried plans, and whether all were tried.
func (x *explorer) tryAll(plans []plan.Plan) (tried int, complete bool) {
	for i, p := range plans {
		if i%x.o.Shards != x.o.Shard {
			continue
		}
		if x.isOver() {
			return tried, false
		}
		tried++
		if !x.try(p) {
			return tried, false
		}
	}
	return tried, true
}

// isOver reports whether the budget is used up.
func (x *explorer) isOver() bool { return time.Since(x.began) > x.o.Budget }

// try plays one plan and judges the run. If the run fails, try records the
// failure in the report and returns false.
func (x *explorer) try(p plan.Plan) bool {
	out := x.play(p, setting{seed: 1})
	x.assess(p, out)
	x.tried = append(x.tried, p.String())
	if out.finding == nil {
		return true
	}
	x.fail(p, out)
	return false
}

// fail makes the counter-example as small as possible and records it in the
// report.
func (x *explorer) fail(p plan.Plan, out *outcome) {
	runs, knownFindings := x.report.Runs, x.report.KnownFindings
	e := smallest(example{x: x, p: p, out: out})
	e.explain()
	r, f := x.report, e.out.finding
	if r.Chance == "" && f.Oracle != report.Stop && f.Oracle != report.Vain { // does the token replay?
		e.x.reference, e.x.quiet = e.out, false
		e.x.compare(e.x.play(e.p, setting{seed: 1}))
		r.Chance = e.x.report.Chance
	}
	x.report.Runs, x.report.KnownFindings = runs, knownFindings
	r.Token = plan.Token(e.p, e.out.hash(), e.x.omitted)
	r.Oracle, r.Reason, r.Trace = f.Oracle, string(f.Reason), f.Trace(e.out.lines)
	text := words(e.p) + f.Text + "\n  replay: " + r.Token
	if parts := omitted(e.x.omitted, e.x.whole); parts != "" {
		text += "\n  without: " + parts
	}
	if r.Chance != "" {
		text += "\n  note: " + r.Chance
	}
	r.Failure = f.Words(text, r.Trace)
}
