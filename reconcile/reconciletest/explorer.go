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

// explorer makes the runs of one exploration, and judges them by those without
// faults. A smaller case, which the shrinker tries, has an explorer of its own.
type explorer struct {
	subject
	t         *testing.T
	used      map[string]bool // known findings that occurred
	whole     *Case           // that was given
	less      plan.Cut        // the part of the case that c leaves out
	quiet     bool            // it reports nothing
	all       bool            // every run was made, pairs and orders included
	loud      bool            // it prints each message at once
	began     time.Time
	reference *outcome          // of the run without faults
	masked    []map[string]bool // by rest: the fields in which two runs without faults differ
	widened   bool              // by more of them
	report    *Report
	rules     rules.Set
	hashes    []string // of the traces of all runs, for tests
	tried     []string // the plans, for tests
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
		subject: subject{c: c, o: opts, granted: granted, ignore: state.NewIgnore(c.Ignore...), errs: errs},
		t:       t, used: map[string]bool{}, whole: c, began: time.Now(), report: &Report{}, rules: rules.Set{},
	}
}

// garbage is the value of GOGC: a run leaves little behind, and that soon
// becomes garbage.
const garbage = 800

// prepare reads the options, and takes chance out of the process for as long as
// the test lasts.
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
	// One of them sleeps until its clock has passed that of the last error,
	// which may come from another run, or from real time.
	handlers := utilruntime.ErrorHandlers
	t.Cleanup(func() { utilruntime.ErrorHandlers = handlers })
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{errs.handle}
	return opts
}

// of is a quiet explorer of a case that was made of the whole one.
func (x *explorer) of(c *Case) *explorer {
	s := x.subject
	s.c = c
	return &explorer{
		subject: s, t: x.t, used: x.used, whole: x.whole, began: x.began, report: &Report{}, rules: rules.Set{}, quiet: true,
	}
}

// say writes a line that go test shows without -v, unless it is told the
// package by name.
func (x *explorer) say(text string) {
	fmt.Fprintf(os.Stderr, "reconciletest: %s: %s\n", x.t.Name(), text)
}

// play plays one plan, and adds the program's calls to the rules. Its outcome
// is not judged yet.
func (x *explorer) play(p plan.Plan, s setting) *outcome {
	x.t.Helper()
	x.report.Runs++
	out, err := x.inBubble(p, s)
	if err == nil && out.finding != nil && out.finding == out.unwoken {
		s.long = true // it may look again by itself
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
	return out
}

// inBubble plays one plan in a bubble of its own, with client-go's sources of
// chance reset. An error says that the world of the case could not be made. A
// goroutine that is left when Run has returned is a finding: the bubble panics
// then.
func (x *explorer) inBubble(p plan.Plan, s setting) (out *outcome, err error) {
	x.t.Helper()
	watchdog := time.AfterFunc(hangs, func() { x.hung(p, out) })
	defer watchdog.Stop()
	defer func() {
		if bad := recover(); bad != nil {
			if text := fmt.Sprint(bad); !strings.Contains(text, "blocked goroutines remain") {
				panic(bad)
			}
			if left := stacks.Left(); out.finding == nil && left != "" {
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
		out.stuck = func() { watchdog.Reset(min(hangs, lingers)) }
		r.play(ctx)
	})
	return out, err
}

const lingers = 3 * time.Second // how long a bubble may take, in real time, to end after its Run did not

// hangs is how long one run may take in real time: a longer one waits for
// something outside of the bubble.
var hangs = time.Minute //nolint:gochecknoglobals // tests do not wait for a minute

// hung ends the test binary with an explanation and a token: a goroutine that
// does not end cannot be taken out of its bubble.
func (x *explorer) hung(p plan.Plan, out *outcome) {
	words := "without any fault"
	if len(p) > 0 {
		words = p.Words()
	}
	what, hash := "a run has taken longer than "+hangs.String()+", in real time. "+stacks.Diagnose(), "?"
	if out != nil {
		hash = out.hash()
		if out.finding != nil {
			what = out.finding.Text
		}
	}
	panic("reconciletest: " + words + ": " + what + "\n  replay: " + plan.Token(p, hash, x.less))
}

// compare looks for chance: before its first deviation a run has to be that
// without faults.
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
