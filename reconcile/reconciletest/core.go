package reconciletest

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/rules"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// Virtual times of a run.
const (
	killAfter    = 30 * time.Second // from the end of its context: then a cluster kills it (terminationGracePeriodSeconds)
	stopWithin   = 2 * time.Minute  // from the end of its context: then it is not waited for any longer
	restartAfter = 10 * time.Second // from a Run that returned by itself to the next boot
	takeOver     = 30 * time.Second // from a crash to the next boot, where there are other replicas
	partition    = 45 * time.Second
	outage       = 30 * time.Second // at most
	actorDelay   = time.Minute      // how late a late actor is
	sleepTime    = time.Hour
	stayTime     = 30 * time.Minute
)

// subject is the case under test, with the state that all runs of an
// exploration share.
type subject struct {
	c       *Case
	o       Options
	granted rules.Granted
	ignore  *state.Ignore
	errs    *errorLog
	usual   int // writes without faults, once that is known
}

// core has the fields that all parts of a run share.
type core struct {
	subject
	sim       *apisim.Server
	sched     *apisim.Scheduler
	world     *World
	out       *outcome
	given     plan.Plan
	plan      plan.Plan  // the rest of it
	faultless bool       // the plan was empty from the beginning
	tail      bool       // the plan is over: no more writes are allowed
	old       bool       // the version of Case.Before runs: its plan has not begun, and its calls do not count
	progress  time.Time  // of the last write or act that keeps the program from being at rest
	random    *rand.Rand // orders everything; nil: the usual order
	lined     time.Time  // when the trace got its last line
	collected int        // the length of the trace when the garbage collector acted last
}

const (
	mostLines = 100_000
	timeMark  = time.Minute // a shorter time is not in the trace
)

// line adds a line to the trace, up to a limit: a run that never comes to rest
// must not fill the memory.
//
// If a minute or more has passed since the line before, a line of its own says
// so.
func (r *core) line(text string) {
	passed := time.Since(r.lined).Round(time.Second)
	if !r.lined.IsZero() && passed >= timeMark && len(r.out.lines) < mostLines {
		r.out.lines = append(r.out.lines, report.Later+strings.TrimSuffix(passed.String(), "0s"))
	}
	r.lined = time.Now()
	if len(r.out.lines) < mostLines {
		r.out.lines = append(r.out.lines, text)
	}
}

// find keeps the first finding.
func (r *core) find(oracle string, why report.Reason, text string) {
	if r.out.finding == nil {
		r.out.finding = &report.Finding{Oracle: oracle, Reason: why, Text: text, UpTo: len(r.out.lines)}
	}
}

// why is the reason of a finding that follows from the plan.
func (r *core) why(saw report.Seen) report.Reason { return r.out.why(r.given, r.usual, saw) }

// chance is the source of chance that orders everything; nil: the order is the
// usual one.
func (r *core) chance() *rand.Rand {
	if r.tail || r.old {
		return nil
	}
	return r.random
}

// planned returns the deviation of that kind at that index. It finds none
// before the program of the case has started, and once the plan is over.
func (r *core) planned(kind byte, index int) (plan.Deviation, bool) {
	if r.tail || r.old {
		return plan.Deviation{}, false
	}
	d, now := r.plan.Find(kind, index)
	if now {
		r.struck()
	}
	return d, now
}

// struck notes where the run may begin to differ from the one without faults.
func (r *core) struck() { r.out.same = min(r.out.same, len(r.out.lines)) }
