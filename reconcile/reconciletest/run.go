package reconciletest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/simhook"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/backend"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/gate"
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
	actorDelay   = time.Minute // how late a late actor is
	sleepTime    = time.Hour
	stayTime     = 30 * time.Minute
)

// core has the fields that all parts of a run share.
type core struct {
	c         *Case
	o         Options
	granted   rules.Granted
	sim       *apisim.Server
	sched     *apisim.Scheduler
	world     *World
	out       *outcome
	plan      plan.Plan // what is left of it
	faultless bool      // the plan was empty from the beginning
	tail      bool      // the plan is over: the program may not write any more
	errs      *errorLog
	ignore    *state.Ignore
	progress  time.Time  // of the last write or act that keeps the program from being at rest
	random    *rand.Rand // orders everything; nil: the usual order
}

const mostLines = 100_000

// line adds a line to the trace. A run that never comes to rest does not fill the memory with it.
func (r *core) line(text string) {
	if len(r.out.lines) < mostLines {
		r.out.lines = append(r.out.lines, text)
	}
}

// find keeps the first finding.
func (r *core) find(oracle, text string) {
	if r.out.finding == nil {
		r.out.finding = &report.Finding{Oracle: oracle, Text: text, UpTo: len(r.out.lines)}
	}
}

// chance is the source of chance that orders everything; nil: the order is the usual one.
func (r *core) chance() *rand.Rand {
	if r.tail {
		return nil
	}
	return r.random
}

// planned returns the deviation of that kind at that index. Once the plan is over there is none.
func (r *core) planned(kind byte, index int) (plan.Deviation, bool) {
	if r.tail {
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

// run is one run of a case under a plan, inside a bubble. One goroutine drives it; the hooks of the server run while it
// waits for them.
type run struct {
	*core
	setting setting
	fleet   *fleet
	gate    *gate.Gate
	delays  *delays
	judge   *judge
	chooser *chooser
	steps   int
	next    int // step of the workload
	again   int // the step that could not be done once, from 1; 0: none
}

// setting has the values on which the result of a run must not depend: the seed of UIDs and generated names, and the
// time of the day. Runs with faults have seed 1 and no start.
type setting struct {
	seed  uint64
	start time.Duration
	stay  bool // the program has to stay at rest
}

// newRun makes the world of a case, with all hooks in place. Nothing of the program has started.
func newRun(x *explorer, p plan.Plan, s setting) (*run, error) {
	c := x.c
	r := &core{
		c: c, o: x.o, granted: x.granted, errs: x.errs, plan: p, faultless: len(p) == 0, ignore: x.ignore, out: newOutcome(),
	}
	if d, found := p.First(plan.Shuffled); found {
		r.random = rand.New(rand.NewPCG(uint64(d.Index), 1))
		r.struck()
	}
	if s.start > 0 {
		<-time.NewTimer(s.start).C
	}
	var err error
	r.sim, err = apisim.New(&apisim.Options{
		Resources: c.resources(), NoStreamingLists: true, Lifecycle: true, Seed: s.seed,
	})
	if err != nil {
		return nil, err
	}
	r.world = c.On(backend.Simulated{Server: r.sim})
	if err := backend.Begin(r.world.server, c.Objects...); err != nil {
		return nil, err
	}
	r.errs.take() // those of an earlier run
	fleet, delays := newFleet(r), newDelays(r)
	judge := newJudge(r, len(fleet.replicas) > 1)
	r.sim.Deny(judge.called)
	r.sim.OnCommit(judge.committed)
	r.sched = r.sim.Schedule(-1) // the trace is the run's
	r.sched.OnCrash(fleet.crash)
	collector := r.sim.Collector()
	r.sched.Add(judge.extra(Actor{
		Name: "collect garbage", Enabled: func(*World) bool { return collector.Pending() },
		Do: func(*World) { collector.Step() },
	}))
	for _, a := range c.Actors {
		r.sched.Add(judge.extra(a))
	}
	return &run{
		core: r, setting: s, fleet: fleet, gate: &gate.Gate{Wake: r.sched.Wake}, delays: delays, judge: judge,
		chooser: &chooser{core: r, fleet: fleet, delays: delays, judge: judge, retryAt: map[string]time.Time{}},
	}, nil
}

// play runs everything. Its findings are in the outcome.
//
// The program boots and comes to rest; then come the steps of the workload, each followed by a rest; then Goal is
// checked, and a restart may write nothing. The deviations of the plan strike on the way: in [chooser.pick] those of
// calls, deliveries and actors, in disturbRest those of a rest, in work and early those of a step, and in drift those
// of the outputs. After the first finding nothing more is disturbed, and the run ends.
func (r *run) play(ctx context.Context) {
	defer simhook.Use(r.gate.Hooks())()
	r.fleet.bootAll(ctx)
	r.settle(ctx)
	r.disturbRest(ctx)
	for r.next < len(r.c.Workload) && r.out.finding == nil && !r.out.void {
		r.rest()
		r.work(ctx)
		r.settle(ctx)
		r.disturbRest(ctx)
	}
	r.out.outputs = r.judge.existing(r.judge.created)
	r.out.written = append(slices.Clone(r.out.outputs), r.judge.existing(r.judge.written)...)
	r.drift(ctx)
	if r.out.finding == nil && !r.out.void && r.c.Goal != nil {
		if err := ask(r.c.Goal, r.world); err != nil {
			r.find(report.Goal, err.Error())
		}
	}
	r.rest()
	if r.setting.stay {
		r.stay(ctx)
	}
	if r.out.finding == nil { // a restart lets the program reconcile everything once more
		r.tail, r.out.whole = true, true
		r.line("restart: all is done, so nothing may be written")
		r.haltAll()
		r.fleet.bootAll(ctx)
		r.settle(ctx)
	}
	r.haltAll()
	r.sched.Stop()
	r.out.finding = cmp.Or(r.out.finding, r.out.late)
}

// rest records what the server has when the program is at rest, and compares the program's caches with it. The states
// are compared later, with those of the run without faults.
func (r *run) rest() {
	r.out.restedAt = append(r.out.restedAt, len(r.out.lines))
	r.out.states = append(r.out.states, state.OfServer(r.sim, r.ignore))
	r.out.commits = append(r.out.commits, len(r.judge.versions))
	if r.out.finding == nil {
		r.fleet.checkCaches()
		r.judge.checkStatus()
	}
}

// settle lets things happen until nothing was written for Options.Rest, and no actor is due: then the program is at
// rest. A run that takes more than Options.Steps never is.
func (r *run) settle(ctx context.Context) {
	r.progress = time.Now()
	r.live(ctx, func() time.Time {
		last := r.progress
		for _, due := range r.dues() {
			if due.After(last) {
				last = due
			}
		}
		return last.Add(r.o.Rest)
	})
}

// live lets things happen until that time, which may move away while they do.
//
// Each round begins when every goroutine of the bubble is blocked. It either lets a worker of a queue in, or takes one
// action of the scheduler, or, if there is none, lets virtual time pass until something can happen.
func (r *run) live(ctx context.Context, until func() time.Time) {
	for {
		enabled := r.sched.Enabled() // every goroutine is blocked: what the hooks wrote may be read
		for _, l := range r.errs.take() {
			r.line(l)
		}
		if r.out.finding != nil {
			return
		}
		if r.returned(ctx) {
			continue
		}
		entered := r.gate.Open(r.chance())
		if !entered && r.early(ctx) {
			continue
		}
		if !entered && !acts(enabled) && !time.Now().Before(until()) {
			return
		}
		if r.steps++; r.steps > r.o.Steps {
			r.find(report.Rest, fmt.Sprintf("it never comes to rest: %d steps, and the last write was %v ago",
				r.o.Steps, time.Since(r.progress)))
			return
		}
		if entered {
			continue
		}
		if a, f, ok := r.chooser.pick(enabled); ok {
			r.chooser.take(a, f)
			r.chooser.age()
			continue
		}
		r.sched.Idle(r.patience(until()))
	}
}

// patience is how long virtual time may pass until something has to be decided: the run is at rest, a delay ends, a
// replica boots, an actor is due.
func (r *run) patience(until time.Time) time.Duration {
	left := time.Until(until)
	for _, at := range append(r.delays.ends(), r.dues()...) {
		if d := time.Until(at); d > 0 {
			left = min(left, d)
		}
	}
	for _, p := range r.fleet.replicas {
		for _, at := range []time.Time{p.down, p.apart, p.killed} {
			if d := time.Until(at); d > 0 {
				left = min(left, d)
			}
		}
	}
	return max(left, time.Millisecond)
}

// dues are the times at which actors will act; now, for those that would act at once. A late actor is due when it is no
// longer late.
func (r *run) dues() []time.Time {
	var all []time.Time
	for _, a := range r.c.Actors {
		if a.Due == nil {
			continue
		}
		if a.Enabled(r.world) {
			all = append(all, time.Now())
		}
		if at := a.Due(r.world); !at.IsZero() {
			all = append(all, at)
		}
	}
	return append(all, r.delays.actorsDue()...)
}

// work does the next step of the workload, or, if the plan says so, several while the program is down.
func (r *run) work(ctx context.Context) {
	d, down := r.plan.Find(plan.Offline, r.next+1)
	if !down {
		r.step(ctx)
		return
	}
	r.struck()
	r.line("down      the program")
	r.haltAll()
	for range min(d.N, len(r.c.Workload)-r.next) {
		if !r.step(ctx) {
			break
		}
		r.settle(ctx)
	}
	r.line("restart   the program")
	r.fleet.bootAll(ctx)
}

// step does the next step of the workload, and reports whether that was possible. A step that fails is done once more
// at the next rest: with faults its object may not be there yet, or may still be there. If it fails again, that is the
// program's fault; of a step that may be half done this is not known, and the run ends without a word.
func (r *run) step(ctx context.Context) bool {
	step := r.c.Workload[r.next]
	r.line("others    " + step.Name)
	r.progress = time.Now()
	err := step.Do(ctx, r.world)
	switch again := r.again == r.next+1; {
	case err == nil, again && step.gone != nil && step.gone(err):
		r.next++
		return true
	case !r.faultless && !again:
		r.again = r.next + 1
		r.line("  cannot be done yet: " + err.Error())
		return false
	case r.faultless || step.single:
		r.find(report.Workload, fmt.Sprintf("step %q of the workload: %v", step.Name, err))
	default:
		r.out.void = true
	}
	return false
}

// early does a step of the workload before its time, if the plan says so.
func (r *run) early(ctx context.Context) bool {
	d, now := r.planned(plan.Early, r.out.decisions+1)
	if !now || r.next >= len(r.c.Workload) {
		return false
	}
	r.chooser.done(d)
	r.step(ctx)
	return true
}

// stay lets time pass. Nothing but times may change.
func (r *run) stay(ctx context.Context) {
	until, from := time.Now().Add(stayTime), len(r.out.lines)
	r.live(ctx, func() time.Time { return until })
	r.out.stayed = r.out.lines[from:]
	before := r.out.states[len(r.out.states)-1]
	if diff := state.OfServer(r.sim, r.ignore).Diff(before, nil); len(diff) > 0 {
		r.find(report.Stay, fmt.Sprintf("it was at rest, and has changed within %v (- before, + after):\n    %s",
			stayTime, strings.Join(diff, "\n    ")))
	}
}

// disturbRest does what the plan has for this rest, and comes to rest again.
func (r *run) disturbRest(ctx context.Context) {
	rest := len(r.out.states) + 1
	for _, d := range r.plan {
		if d.Index != rest || r.out.finding != nil {
			continue
		}
		if d.At == plan.Restarted || d.At == plan.Unsynced || d.At == plan.Asleep {
			r.struck()
		}
		switch d.At {
		case plan.Restarted:
			r.judge.quiet = d.N == 0
			r.reboot(ctx, d.Words(), func() { r.freeze(d.N) })
		case plan.Unsynced:
			r.judge.quiet = true
			r.reboot(ctx, d.Words(), func() { r.delays.holdLists(d.N) })
		case plan.Asleep:
			r.line("ASLEEP    " + sleepTime.String())
			r.sched.Wait(sleepTime)
			r.settle(ctx)
		}
	}
}

// reboot restarts the program in another world.
func (r *run) reboot(ctx context.Context, why string, change func()) {
	r.line("restart   the program: " + why)
	r.haltAll()
	change()
	r.fleet.bootAll(ctx)
	r.settle(ctx)
	r.judge.quiet, r.judge.wanted = false, nil
}

// freeze makes the server's caches those of n writes ago, for a while.
func (r *run) freeze(n int) {
	versions := r.judge.versions
	if n == 0 || len(versions) == 0 {
		return
	}
	version := versions[max(len(versions)-n, 0)] - 1
	for _, p := range r.fleet.replicas {
		r.sim.Freeze(p.client, version)
	}
	r.judge.wanted = map[types.UID]bool{}
	for _, res := range r.sim.Resources() {
		for _, o := range r.sim.Objects(res.GVR()) {
			r.judge.wanted[o.GetUID()] = true
		}
	}
	r.delays.frozen = time.Now().Add(r.o.Lag)
}
