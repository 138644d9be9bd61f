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

// These are virtual times.
const (
	killAfter    = 30 * time.Second // the time from the end of the context until a cluster kills the process
	stopWithin   = 2 * time.Minute  // the time from the end of the context until the run no longer waits for the program
	restartAfter = 10 * time.Second // from a Run that returned by itself to the next boot; it doubles like a kubelet's
	mostBackOff  = 5 * time.Minute
	takeOver     = 30 * time.Second // from a crash or a stop to the next boot, if there are other replicas
	partition    = 45 * time.Second
	shortOutage  = 30 * time.Second // the longest time that a short outage lasts
	actorDelay   = time.Minute      // how late a late actor is
	sleepTime    = time.Hour
	skew         = 45 * time.Second // the difference between the clocks of the server and the program
	farSkew      = 2 * time.Hour
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
	usual   int                 // number of writes in the first run without faults, or 0 while it is unknown
	foreign state.ForeignFields // the fields that another client may set
	samples []state.Located     // an object of each custom resource that had one at a rest; nil while unknown
}

// core has the fields that all parts of a run share.
type core struct {
	subject
	sim       *apisim.Server
	sched     *apisim.Scheduler
	world     *World
	out       *outcome
	given     plan.Plan
	plan      plan.Plan  // the deviations that are still to come
	faultless bool       // whether the plan was empty from the beginning
	tail      bool       // whether the plan is over; the program must then not write any more
	old       bool       // the version of Case.Before is running, so the plan has not begun and calls do not count
	progress  time.Time  // when something last happened, such as a write, that keeps the program from being at rest
	random    *rand.Rand // determines the order of all actions; nil for the usual order
	lined     time.Time  // when the trace got its last line
	collected int        // the length of the trace when the garbage collector acted last
}

const (
	mostLines = 100_000
	timeMark  = time.Minute // shorter times without a line are not shown in the trace
)

// line adds a line to the trace, up to a limit. Otherwise a run that never
// comes to rest would exhaust the memory.
//
// If a minute or more has passed since the previous line, it first adds a line
// with that time.
func (r *core) line(text string) {
	passed := time.Since(r.lined).Round(time.Second)
	if !r.lined.IsZero() && passed >= timeMark && len(r.out.lines) < mostLines {
		r.out.lines = append(r.out.lines, report.Elapsed+strings.TrimSuffix(passed.String(), "0s"))
	}
	r.lined = time.Now()
	if len(r.out.lines) < mostLines {
		r.out.lines = append(r.out.lines, text)
	}
}

// find records a finding, unless there already is one.
func (r *core) find(oracle string, reason report.Reason, text string) {
	if r.out.finding == nil {
		r.out.finding = &report.Finding{Oracle: oracle, Reason: reason, Text: text, UpTo: len(r.out.lines)}
	}
}

// reason returns the Reason of a finding. It depends on the plan of this run,
// and on saw, which says what the finding shows.
func (r *core) reason(saw report.Seen) report.Reason { return r.out.reason(r.given, r.usual, saw) }

// chance returns the source of randomness for the order of actions, or nil for
// the usual order.
func (r *core) chance() *rand.Rand {
	if r.tail || r.old {
		return nil
	}
	return r.random
}

// planned returns the deviation of the given kind at the given index. It
// returns false while the version of Case.Before runs, and after the plan is
// over. If there is such a deviation, planned also calls struck.
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

// struck records the place in the trace where the run may begin to differ from
// the run without faults.
func (r *core) struck() { r.out.samePrefix = min(r.out.samePrefix, len(r.out.lines)) }
