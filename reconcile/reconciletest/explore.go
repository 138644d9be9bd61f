package reconciletest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/rules"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// Report says what an exploration covered.
type Report struct {
	// Runs were made; Planned is how many single deviations there are for this process, Pairs how many of the runs had
	// two.
	Runs, Planned, Pairs int
	// Kills of a [Smoke].
	Kills int
	// Calls, Writes and Deliveries of the run without faults.
	Calls, Writes, Deliveries int
	// Rules are the fewest with which the program could do all that it did in all runs.
	Rules []rbacv1.PolicyRule
	// Failure is what the test was failed with; "": nothing.
	Failure string
	// Token is the failure's, for [Replay].
	Token string
	// Oracle that found it: run, stop, workload, rest, goal, always, tail, state, counts, leader, watch and the like.
	Oracle string
	// Trace is what happened up to the failure, a line for each step.
	Trace []string
	// Elapsed is how long it took, in real time.
	Elapsed time.Duration
}

// Compare holds the rules of a Role or ClusterRole against what the program did: missing are the calls that the
// rules do not allow, unused the verbs that they allow and no run needed, as "verb resource.group".
func (r *Report) Compare(granted []rbacv1.PolicyRule) (missing, unused []string) {
	return rules.Compare(r.Rules, granted)
}

func (r *Report) String() string {
	return fmt.Sprintf("%d runs (%d of %d single deviations, %d pairs); "+
		"without faults: %d calls, %d writes, %d deliveries",
		r.Runs, min(r.Runs, r.Planned), r.Planned, r.Pairs, r.Calls, r.Writes, r.Deliveries)
}

// Explore runs the case without faults, and then again with each single deviation, and then with pairs of them,
// and then other orders by seed, until the budget is used up. It fails the test with the first counter-example, made
// smaller: what went wrong, the trace, a hint, and a
// token for [Replay].
//
// While it runs it sets the global source of math/rand and GODEBUG=randseednop=0: tests that call it cannot be
// parallel.
func Explore(t *testing.T, c *Case, o *Options) *Report {
	t.Helper()
	r := Search(t, c, o)
	if r.Failure != "" {
		t.Error(r.Failure)
		return r
	}
	t.Log(r.String())
	return r
}

// Search is [Explore] that does not fail the test: for tests which show that a bug would be found.
func Search(t *testing.T, c *Case, o *Options) *Report {
	t.Helper()
	x := newExplorer(t, c, o)
	x.explore()
	x.report.Rules = x.rules.Rules()
	x.report.Elapsed = time.Since(x.began)
	return x.report
}

func newExplorer(t *testing.T, c *Case, o *Options) *explorer {
	t.Helper()
	return &explorer{t: t, c: c, whole: c, o: prepare(t, c, o), began: time.Now(), report: &Report{}, rules: rules.Set{}}
}

func prepare(t *testing.T, c *Case, o *Options) Options {
	t.Helper()
	var given Options
	if o != nil {
		given = *o
	}
	err := given.share(os.Getenv(shardVariable))
	opts := given.withDefaults()
	if err := errors.Join(err, opts.validate()); err != nil {
		t.Fatalf("reading the options of an exploration: %v", err)
	}
	if err := c.Validate(); err != nil {
		t.Fatalf("reading the case of an exploration: %v", err)
	}
	t.Setenv("GODEBUG", strings.TrimPrefix(os.Getenv("GODEBUG")+",randseednop=0", ","))
	// One of them sleeps for as long as its clock is behind that of the last error: of another run, or of real time.
	handlers := utilruntime.ErrorHandlers
	t.Cleanup(func() { utilruntime.ErrorHandlers = handlers })
	utilruntime.ErrorHandlers = nil
	return opts
}

type explorer struct {
	t         *testing.T
	c         *Case
	whole     *Case    // that was given
	less      plan.Cut // what c leaves out of it
	quiet     bool     // it logs nothing
	o         Options
	began     time.Time
	reference *outcome
	masked    []map[string]bool
	report    *Report
	rules     rules.Set
	hashes    []string // of the traces of all runs
	tried     []string // plans
}

func (x *explorer) explore() {
	if !x.refer() {
		return
	}
	singles := x.singles()
	x.report.Planned = (len(singles) + x.o.Shards - 1 - x.o.Shard) / x.o.Shards
	if !x.tryAll(singles) {
		return
	}
	before := x.report.Runs
	tried := x.tryAll(x.pairs())
	if x.report.Pairs = x.report.Runs - before; !tried {
		return
	}
	orders := make([]plan.Plan, x.o.Seeds)
	for i := range orders {
		orders[i] = seeded(i+1, singles)
	}
	x.tryAll(orders)
}

// tryAll plays the plans of this shard; false: one failed, or the budget is used up.
func (x *explorer) tryAll(plans []plan.Plan) bool {
	for i, p := range plans {
		if i%x.o.Shards != x.o.Shard {
			continue
		}
		if x.over() || !x.try(p) {
			return false
		}
	}
	return true
}

func (x *explorer) over() bool { return time.Since(x.began) > x.o.Budget }

// refer makes the runs without faults: twice the same, and once at another time with other names, which has to stay at
// rest.
func (x *explorer) refer() bool {
	first := x.play(nil, setting{seed: 1})
	x.reference = first
	if first.finding == nil {
		x.unwatched(first)
	}
	if first.finding != nil {
		x.fail(nil, first)
		return false
	}
	if !x.quiet {
		again := x.play(nil, setting{seed: 1})
		if i := firstDifference(first.lines, again.lines); i >= 0 {
			x.t.Log(chance(first, again, i))
		}
	}
	other := x.play(nil, setting{seed: 2, start: 97 * time.Minute, stay: !x.quiet})
	if other.finding != nil {
		x.fail(nil, other)
		return false
	}
	for i := range min(len(first.states), len(other.states)) {
		x.masked = append(x.masked, first.states[i].Mask(other.states[i]))
	}
	x.report.Calls, x.report.Deliveries = len(first.calls), first.deliveries
	for _, c := range first.calls {
		if c.effect {
			x.report.Writes++
		}
	}
	return true
}

// chance says where two runs that should be the same are not.
func chance(first, again *outcome, i int) string {
	return fmt.Sprintf("two runs without faults differ at line %d: %q and %q. The program decides by chance"+
		" (the order of a map, math/rand, a race of goroutines): tokens may not apply again.", i+1,
		lineAt(first.lines, i), lineAt(again.lines, i))
}

func firstDifference(a, b []string) int {
	for i := range max(len(a), len(b)) {
		if lineAt(a, i) != lineAt(b, i) {
			return i
		}
	}
	return -1
}

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(the end)"
}

// unwatched finds what the program writes or reads and does not watch.
func (x *explorer) unwatched(o *outcome) {
	if len(o.calls) == 0 {
		o.finding = &report.Finding{Oracle: report.Watch, Text: "the program makes no call: " +
			"its clients have to be of Env.Client or Env.Config, and not fakes"}
		return
	}
	for verb, resources := range map[string]map[string]bool{"writes": o.uses.written, "reads": o.uses.read} {
		for _, resource := range slices.Sorted(maps.Keys(resources)) {
			if !o.uses.watched[resource] && !slices.Contains(x.c.Unwatched, resource) {
				o.finding = &report.Finding{Oracle: report.Watch, Text: fmt.Sprintf(
					"it %s %s and does not watch them: "+
						"it cannot see when somebody else changes or deletes them", verb, resource)}
				return
			}
		}
	}
}

func (x *explorer) play(p plan.Plan, s setting) *outcome {
	x.t.Helper()
	x.report.Runs++
	out, err := inBubble(x.t, x.c, x.o, p, s)
	if err != nil {
		x.t.Fatalf("setting up the case: %v", err)
	}
	x.rules.AddAll(out.rules)
	x.hashes = append(x.hashes, out.hash())
	return out
}

// try plays one plan and judges it; false: it failed.
func (x *explorer) try(p plan.Plan) bool {
	out := x.play(p, setting{seed: 1})
	x.judge(p, out)
	x.tried = append(x.tried, p.String())
	if out.finding == nil {
		return true
	}
	x.fail(p, out)
	return false
}

// judge asks the oracles that compare with the reference.
func (x *explorer) judge(p plan.Plan, out *outcome) {
	if out.finding != nil {
		return
	}
	if at, differs := state.Compare(out.states, x.reference.states, x.masked); differs != "" {
		out.finding = &report.Finding{Oracle: report.State, UpTo: out.restedAt[at], Text: differs}
		return
	}
	if most := amplified*x.reference.writes + amplifiedBy; out.writes > most && !slow(p) {
		out.finding = &report.Finding{Oracle: report.Amplify, Text: fmt.Sprintf(
			"it makes %d writes, and without faults %d", out.writes, x.reference.writes)}
		return
	}
	if !onlyWatches(p) {
		return
	}
	for _, what := range slices.Sorted(maps.Keys(out.counts)) {
		if n, want := out.counts[what], x.reference.counts[what]; n > want {
			out.finding = &report.Finding{
				Oracle: report.Counts,
				Text:   fmt.Sprintf("%s: %d, and without the delay %d", what, n, want),
			}
			return
		}
	}
}

// How many writes a run with faults may have: so many times those of the run without, and some more.
const amplified, amplifiedBy = 5, 30

// slow tells whether the plan makes something come late. Then two sides may undo each other's work for as long.
func slow(p plan.Plan) bool {
	return slices.ContainsFunc(p, func(d plan.Deviation) bool {
		return (d.At == plan.AtDelivery || d.At == plan.AtCall) && d.Fault == plan.Hold ||
			d.At == plan.Restarted || d.At == plan.Shuffled || d.At == plan.Lagging
	})
}

// onlyWatches tells whether the plan does nothing but to make what the program sees old.
func onlyWatches(p plan.Plan) bool {
	for _, d := range p {
		if d.At != plan.AtDelivery && (d.At != plan.AtCall || d.Fault != plan.Hold) {
			return false
		}
	}
	return true
}

// fail puts the counter-example into the report, made as small as possible.
func (x *explorer) fail(p plan.Plan, out *outcome) {
	if x.quiet {
		return
	}
	runs := x.report.Runs
	e := smallest(example{x: x, p: p, out: out})
	x.report.Runs = runs
	r, f := x.report, e.out.finding
	r.Token = plan.Token(e.p, e.out.hash(), e.x.less)
	r.Oracle, r.Trace = f.Oracle, f.Trace(e.out.lines)
	what := e.p.Words()
	if len(e.p) == 0 {
		what = "without any fault"
	}
	what += ": " + f.Text + "\n  replay: " + r.Token
	if out := omitted(e.x.less, e.x.whole); out != "" {
		what += "\n  without: " + out
	}
	r.Failure = f.Words(what, r.Trace, e.p)
}
