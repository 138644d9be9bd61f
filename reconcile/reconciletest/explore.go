package reconciletest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/rules"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// Explore runs the case without faults, then again with each single deviation, then with pairs of them, and then in
// other orders by seed, until the budget is used up. It fails the test with the first counter-example, made smaller:
// what went wrong, the trace, a hint, and a token for [Replay]. Otherwise it logs a summary; when the budget was too
// small for the single deviations it says so on stderr, and in CI it fails: see [Options].
//
// Returns the report, which is never nil. A case or options that are wrong end the test at once, by Fatal.
//
// Concurrency: while it runs it sets the global source of math/rand, GODEBUG=randseednop=0, GOGC=800, and client-go's
// error handlers: tests that call it cannot be parallel.
func Explore(t *testing.T, c *Case, o *Options) *Report {
	t.Helper()
	x := newExplorer(t, c, o)
	r := x.search()
	if r.Failure != "" {
		t.Error(r.Failure)
		return r
	}
	t.Attr("reconciletest", r.String())
	if len(r.Unused) > 0 {
		x.say("declared, and never used: " + strings.Join(r.Unused, ", "))
	}
	switch {
	case r.Covered():
		t.Log(r.String())
	case x.o.strict:
		t.Errorf("not all was tried: %v. Set %s=5m or so, divide the runs by %s=1/4 to 4/4, "+
			"or set reconciletest.Options.Budget", r,
			budgetVariable, shardVariable)
	default:
		x.say("NOT ALL WAS TRIED: " + r.String())
	}
	return r
}

// Search is [Explore] that does not fail the test: for tests which show that a bug would be found. The counter-example
// is in [Report].Failure. It may also leave single deviations untried, whatever the environment says.
//
// Returns the report, which is never nil. A case or options that are wrong end the test at once, by Fatal.
func Search(t *testing.T, c *Case, o *Options) *Report {
	t.Helper()
	return newExplorer(t, c, o).search()
}

// search explores, and completes the report.
func (x *explorer) search() *Report {
	x.t.Helper()
	x.loud = true
	x.explore()
	x.report.Rules = x.rules.Rules()
	x.inVain()
	x.report.Unused = unused(x)
	x.report.Elapsed = time.Since(x.began)
	return x.report
}

// inVain finds what Case.Roles grant and no run needs. Before all was tried, a run that is still to come may need it.
func (x *explorer) inVain() {
	unused := x.granted.Unused(x.rules, x.c.Unneeded)
	if len(unused) == 0 || x.report.Failure != "" || x.o.Shards > 1 || !x.report.Covered() {
		return
	}
	x.report.Oracle = report.Role
	x.report.Failure = "no run needs what is granted: take it out, let the case need it, or name it in Case.Unneeded:" +
		strings.Join(append([]string{""}, unused...), "\n    ")
}

// unused finds what the case or the options declare and no run needs. Before all was tried, a run that is still to come
// may need it.
func unused(x *explorer) []string {
	if x.report.Failure != "" || x.o.Shards > 1 || !x.all {
		return nil
	}
	var all []string
	add := func(option, entry string) { all = append(all, fmt.Sprintf("%s %q", option, entry)) }
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
	for _, part := range x.o.Known {
		if !x.used[part] {
			add("Options.Known", part)
		}
	}
	return all
}

// newExplorer begins an exploration, whose budget runs from now.
func newExplorer(t *testing.T, c *Case, o *Options) *explorer {
	t.Helper()
	errs := &errorLog{}
	opts := prepare(t, c, o, errs)
	granted, err := rules.Read(c.Roles)
	if err != nil {
		t.Fatalf("reading Case.Roles: %v", err)
	}
	return &explorer{
		t: t, c: c, granted: granted, ignore: state.NewIgnore(c.Ignore...), used: map[string]bool{}, whole: c, o: opts,
		errs: errs, began: time.Now(), report: &Report{}, rules: rules.Set{},
	}
}

// garbage is the percentage at which Go collects it: what a run leaves behind is little, and soon of no use.
const garbage = 800

// prepare reads the options, and takes chance out of the process for as long as the test lasts.
func prepare(t *testing.T, c *Case, o *Options, errs *errorLog) Options {
	t.Helper()
	var given Options
	if o != nil {
		given = *o
	}
	err := errors.Join(given.share(os.Getenv(shardVariable)), given.spend())
	opts := given.withDefaults()
	if err := errors.Join(err, opts.validate()); err != nil {
		t.Fatalf("reading the options of an exploration: %v", err)
	}
	if err := c.Validate(); err != nil {
		t.Fatalf("reading the case of an exploration: %v", err)
	}
	collect := debug.SetGCPercent(garbage)
	t.Cleanup(func() { debug.SetGCPercent(collect) })
	t.Setenv("GODEBUG", strings.TrimPrefix(os.Getenv("GODEBUG")+",randseednop=0", ","))
	// One of them sleeps until its clock has passed that of the last error: of another run, or of real time.
	handlers := utilruntime.ErrorHandlers
	t.Cleanup(func() { utilruntime.ErrorHandlers = handlers })
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{errs.handle}
	return opts
}

// explorer makes the runs of one exploration, and judges them by those without faults. A smaller case, which the
// shrinker tries, has an explorer of its own.
type explorer struct {
	t         *testing.T
	c         *Case
	granted   rules.Granted
	ignore    *state.Ignore
	used      map[string]bool // what is known, and was found
	whole     *Case           // that was given
	less      plan.Cut        // what c leaves out of it
	quiet     bool            // it reports nothing
	all       bool            // every run was made, pairs and orders included
	loud      bool            // it says at once what it has to say
	o         Options
	errs      *errorLog
	began     time.Time
	reference *outcome          // of the run without faults
	masked    []map[string]bool // by rest: the fields in which two runs without faults differ
	widened   bool              // by more of them
	report    *Report
	rules     rules.Set
	hashes    []string // of the traces of all runs, for tests
	tried     []string // the plans, for tests
}

// explore makes the runs in their order, until one fails or the budget is used up: those without faults, the single
// deviations, the pairs, the seeds. A shard makes every n-th run of each but the first.
func (x *explorer) explore() {
	if !x.refer() {
		return
	}
	singles := x.planner().singles()
	x.report.Planned = (len(singles) + x.o.Shards - 1 - x.o.Shard) / x.o.Shards
	var all bool
	if x.report.Tried, all = x.tryAll(singles); !all {
		return
	}
	x.o.Budget -= x.o.singles
	if x.report.Pairs, all = x.tryAll(x.planner().pairs()); !all {
		return
	}
	orders := make([]plan.Plan, x.o.Seeds)
	for i := range orders {
		orders[i] = seeded(i+1, singles)
	}
	_, x.all = x.tryAll(orders)
}

// tryAll plays the plans of this shard, and returns how many of them were tried: not all when one has failed, or the
// budget is used up.
func (x *explorer) tryAll(plans []plan.Plan) (tried int, all bool) {
	for i, p := range plans {
		if i%x.o.Shards != x.o.Shard {
			continue
		}
		if x.over() {
			return tried, false
		}
		tried++
		if !x.try(p) {
			return tried, false
		}
	}
	return tried, true
}

// say writes a line that go test shows without -v, unless it is told the package by name.
func (x *explorer) say(text string) {
	fmt.Fprintf(os.Stderr, "reconciletest: %s: %s\n", x.t.Name(), text)
}

// over reports whether the budget is used up.
func (x *explorer) over() bool { return time.Since(x.began) > x.o.Budget }

// refer makes the runs without faults: twice the same, and once at a different time with different names, which has to
// stay at rest. It returns false when one has failed.
func (x *explorer) refer() bool {
	first := x.play(nil, setting{seed: 1})
	x.reference = first
	if first.finding == nil {
		first.unwatched(x.c.Unwatched)
	}
	x.report.Failing = first.firstError()
	x.forgive(nil, first)
	if first.finding != nil {
		x.fail(nil, first)
		return false
	}
	if !x.quiet {
		x.play(nil, setting{seed: 1}) // which compares it
	}
	other := x.play(nil, setting{seed: 2, start: 97 * time.Minute, stay: !x.quiet})
	if other.finding == nil && !x.quiet {
		x.vain(other)
	}
	x.forgive(nil, other)
	if other.finding != nil {
		x.fail(nil, other)
		return false
	}
	x.mask(other)
	x.report.Calls, x.report.Deliveries = len(first.calls), first.deliveries
	for _, c := range first.calls {
		if c.effect {
			x.report.Writes++
		}
	}
	return true
}

// mask adds the differences of another run without faults from the first one.
func (x *explorer) mask(other *outcome) {
	for i := range min(len(x.reference.states), len(other.states)) {
		if i == len(x.masked) {
			x.masked = append(x.masked, map[string]bool{})
		}
		maps.Copy(x.masked[i], x.reference.states[i].State().Mask(other.states[i].State()))
	}
}

// compare looks for chance: before its first deviation a run has to be that without faults.
func (x *explorer) compare(out *outcome) {
	if x.report.Chance != "" || x.quiet || x.reference == nil {
		return
	}
	if a, b, differ := report.Differ(x.reference.lines, out.lines, out.same); differ {
		x.report.Chance = fmt.Sprintf("the program decides by chance (the order of a map, math/rand, a race of goroutines):"+
			" two runs that should be the same go on with %q and with %q. A token may need several replays.", a, b)
		if x.loud {
			x.say(x.report.Chance)
		}
	}
}

// luck is how many more runs without faults tell what differs by chance.
const luck = 10

// widen finds out what else differs by chance, before the program is blamed for it. It returns false if it has done so
// already, or if nothing is left to chance.
func (x *explorer) widen() bool {
	if x.report.Chance == "" || x.widened {
		return false
	}
	x.widened = true
	for range luck {
		x.mask(x.play(nil, setting{seed: 1}))
	}
	return true
}

// unwatched finds a resource that the program writes or reads and does not watch, unless it is allowed, as
// Case.Unwatched says. A program without a single call does not use the clients of its Env.
func (o *outcome) unwatched(allowed []string) {
	if len(o.calls) == 0 {
		o.finding = &report.Finding{Oracle: report.Watch, Text: "the program makes no call: " +
			"its clients have to be of Env.Client or Env.Config, and not fakes"}
		return
	}
	for verb, resources := range map[string]map[string]bool{"writes": o.uses.written, "reads": o.uses.read} {
		for _, resource := range slices.Sorted(maps.Keys(resources)) {
			if !o.uses.watched[resource] && !slices.Contains(allowed, resource) {
				o.finding = &report.Finding{Oracle: report.Watch, Text: fmt.Sprintf(
					"it %s %s and does not watch them: "+
						"it cannot see when another client changes or deletes them", verb, resource)}
				return
			}
		}
	}
}

// play plays one plan, and adds what the program needed to the rules. Its outcome is not judged yet.
func (x *explorer) play(p plan.Plan, s setting) *outcome {
	x.t.Helper()
	x.report.Runs++
	out, err := x.inBubble(p, s)
	if err != nil {
		x.t.Fatalf("setting up the case: %v", err)
	}
	if s.seed == 1 {
		x.compare(out)
	}
	x.rules.AddAll(out.rules)
	x.hashes = append(x.hashes, out.hash())
	return out
}

// try plays one plan and judges it. It returns false when it has failed; then the report has the failure.
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

// judge asks the oracles that compare a run with the reference: state first, which explains why a restart wrote again,
// then amplify, and counts if nothing but what the program sees was delayed. The others were asked while it ran.
func (x *explorer) judge(p plan.Plan, out *outcome) {
	if out.void || out.finding != nil && (out.finding.Oracle != report.Tail || !out.whole) {
		return
	}
	at, differs := state.Compare(out.states, x.reference.states, x.masked)
	if differs != "" && x.widen() {
		at, differs = state.Compare(out.states, x.reference.states, x.masked)
	}
	if differs != "" {
		out.finding = &report.Finding{Oracle: report.State, UpTo: out.restedAt[at], Text: differs}
		return
	}
	if out.finding != nil {
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

// A run with faults may have amplified times the writes of the run without, and amplifiedBy more.
const amplified, amplifiedBy = 5, 30

// slow reports whether the plan delays something. Then two sides may undo each other's work for as long.
func slow(p plan.Plan) bool {
	return slices.ContainsFunc(p, func(d plan.Deviation) bool {
		return (d.At == plan.AtDelivery || d.At == plan.AtCall) && d.Fault == plan.Hold ||
			d.At == plan.Restarted || d.At == plan.Shuffled || d.At == plan.Lagging
	})
}

// onlyWatches reports whether the plan does nothing but delay what the program sees.
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
	runs, known := x.report.Runs, x.report.Known
	e := smallest(example{x: x, p: p, out: out})
	r, f := x.report, e.out.finding
	if r.Chance == "" && f.Oracle != report.Stop && f.Oracle != report.Vain { // does the token replay?
		e.x.reference, e.x.quiet = e.out, false
		e.x.compare(e.x.play(e.p, setting{seed: 1}))
		r.Chance = e.x.report.Chance
	}
	x.report.Runs, x.report.Known = runs, known
	r.Token = plan.Token(e.p, e.out.hash(), e.x.less)
	r.Oracle, r.Trace = f.Oracle, f.Trace(e.out.lines)
	what := words(e.p) + f.Text + "\n  replay: " + r.Token
	if out := omitted(e.x.less, e.x.whole); out != "" {
		what += "\n  without: " + out
	}
	if r.Chance != "" {
		what += "\n  note: " + r.Chance
	}
	r.Failure = f.Words(what, r.Trace, e.p)
}
