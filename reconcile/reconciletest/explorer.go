package reconciletest

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	utilrand "k8s.io/apimachinery/pkg/util/rand"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/rules"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/stacks"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// explorer makes the runs of one exploration, and compares them with the runs
// without faults. Each smaller case that the shrinker tries has an explorer of
// its own.
type explorer struct {
	subject
	t         *testing.T
	used      map[string]bool // the entries of Options.KnownFindings that have matched a finding
	whole     *Case           // the case that the user has passed
	omitted   plan.Cut        // the part of the case that c leaves out
	quiet     bool            // whether the explorer reports nothing, because it only shrinks a failure
	complete  bool            // whether every run was made, including pairs and orders
	loud      bool            // whether Report.Chance is printed as soon as it is found
	began     time.Time
	processor time.Duration     // the processor time of the process when the exploration began
	reference *outcome          // the outcome of the first run without faults
	masked    []map[string]bool // for each rest, the fields in which runs without faults differ
	endures   []*refusal        // the writes that are refused without faults
	widened   bool              // whether additional runs without faults were made to complete masked
	report    *Report
	rules     rules.Set
	hashes    []string             // the hashes of the traces of all runs, for tests
	traced    func(lines []string) // gets the trace of each run, in tests; may be nil
	tried     []string             // the plans that were tried, for tests
}

// newExplorer begins an exploration. Its budget starts now.
func newExplorer(t *testing.T, c *Case, o *Options) *explorer {
	t.Helper()
	errs := &errorLog{}
	opts := prepare(t, c, o, errs)
	granted, err := rules.Read(c.Roles)
	if err != nil {
		t.Fatalf("reading Case.Roles: %v", err)
	}
	return &explorer{
		subject: subject{
			c: c, o: opts, granted: granted, ignore: state.NewIgnore(c.Ignore...), errs: errs,
			foreign: state.BuiltinFields,
		},
		t: t, used: map[string]bool{}, whole: c, began: time.Now(), processor: processorTime(), report: &Report{},
		rules: rules.Set{},
	}
}

// gcPercent is the value of GOGC during an exploration. It is high because a
// run keeps only few objects alive, and only for a short time.
const gcPercent = 800

// prepare returns the options with their defaults. It ends the test if the
// options or the case are invalid. For the rest of the test, it also removes
// sources of randomness from the process, lets errs receive the errors that
// HandleError logs, and lets the garbage collector of Go run less often.
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
	collect := debug.SetGCPercent(gcPercent)
	t.Cleanup(func() { debug.SetGCPercent(collect) })
	t.Setenv("GODEBUG", strings.TrimPrefix(os.Getenv("GODEBUG")+",randseednop=0", ","))
	// One of the original handlers sleeps until some time after the previous
	// error. If that error occurred in another run or in real time, the clock
	// of this run may be far behind that time.
	handlers := utilruntime.ErrorHandlers
	t.Cleanup(func() { utilruntime.ErrorHandlers = handlers })
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{errs.handle}
	return opts
}

// forCase returns a quiet explorer for a case that is derived from the whole
// case.
func (x *explorer) forCase(c *Case) *explorer {
	s := x.subject
	s.c = c
	return &explorer{
		subject: s, t: x.t, used: x.used, whole: x.whole, began: x.began, report: &Report{}, rules: rules.Set{}, quiet: true,
	}
}

// say writes a line to stderr. go test shows it without -v if the package is
// named on the command line.
func (x *explorer) say(text string) {
	fmt.Fprintf(os.Stderr, "reconciletest: %s: %s\n", x.t.Name(), text)
}

// play plays one plan and adds the program's calls to the rules. If the program
// ignores a change of an input, play repeats the run and waits longer. It does
// not judge the outcome: it only looks for decisions by chance, see compare.
func (x *explorer) play(p plan.Plan, s setting) *outcome {
	x.t.Helper()
	x.report.Runs++
	s = x.patient(p, s)
	out, err := x.inBubble(p, s)
	if err == nil && out.finding != nil && out.finding == out.ignored {
		s.long = true // the program may look at the input again by itself
		out, err = x.inBubble(p, s)
	}
	if err != nil {
		x.t.Fatalf("setting up the case: %v", err)
	}
	if s.seed == 1 {
		x.compare(out)
	}
	x.rules.AddAll(out.rules)
	x.hashes = append(x.hashes, out.hash())
	if x.traced != nil {
		x.traced(out.lines)
	}
	return out
}

// inBubble plays one plan in a bubble of its own, after resetting client-go's
// random sources. It returns an error if the world of the case could not be
// made. If a goroutine still exists when Run has returned, the bubble panics,
// and inBubble turns the panic into a finding.
func (x *explorer) inBubble(p plan.Plan, s setting) (out *outcome, err error) {
	x.t.Helper()
	watchdog := time.AfterFunc(maxRunTime, func() { x.hung(p, out) })
	defer watchdog.Stop()
	defer func() {
		if bad := recover(); bad != nil {
			if text := fmt.Sprint(bad); !strings.Contains(text, "blocked goroutines remain") {
				panic(bad)
			}
			if left := stacks.Leftovers(); out.finding == nil && left != "" {
				out.finding = &report.Finding{
					Oracle: report.Stop, Reason: report.LeftBehind,
					Text: "Run has returned, and goroutines that it started are still there:\n" + left,
				}
			}
		}
	}()
	rand.Seed(1) //nolint:staticcheck // client-go takes its jitter from the global source; see Explore
	utilrand.Seed(1)
	synctest.Test(x.t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var r *run
		if r, err = newRun(x.subject, p, s); err != nil {
			return
		}
		out = r.out
		out.stuck = func() { watchdog.Reset(min(maxRunTime, bubbleGrace)) }
		r.play(ctx)
	})
	return out, err
}

// bubbleGrace is how long a bubble may take, in real time, to end if its Run
// did not return.
const bubbleGrace = 3 * time.Second

// maxRunTime is how long one run may take in real time. A longer run is waiting
// for something outside of the bubble.
var maxRunTime = time.Minute //nolint:gochecknoglobals // tests do not wait for a minute

// hung ends the test binary with an explanation and a token, because a
// goroutine that does not end cannot be removed from its bubble.
func (x *explorer) hung(p plan.Plan, out *outcome) {
	words := "without any fault"
	if len(p) > 0 {
		words = p.Words()
	}
	reason, hash := "a run has taken longer than "+maxRunTime.String()+", in real time. "+stacks.Diagnose(), "?"
	if out != nil {
		hash = out.hash()
		if out.finding != nil {
			reason = out.finding.Text
		}
	}
	panic("reconciletest: " + words + ": " + reason + "\n  replay: " + plan.Token(p, hash, x.omitted))
}

// compare finds programs that decide by chance: before its first deviation, a
// run must have the same trace as the run without faults.
func (x *explorer) compare(out *outcome) {
	if x.report.Chance != "" || x.quiet || x.reference == nil {
		return
	}
	if a, b, differ := report.Differ(x.reference.lines, out.lines, out.samePrefix); differ {
		x.report.Chance = fmt.Sprintf("the program decides by chance (the order of a map, math/rand, a race of goroutines):"+
			" two runs that should be the same continue with %q and with %q. A token may need several replays.", a, b)
		if x.loud {
			x.say(x.report.Chance)
		}
	}
}
