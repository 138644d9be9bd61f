package reconciletest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/backend"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/gate"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/stacks"
)

// run is one run of a case under a plan, inside a bubble. One goroutine drives
// it; the hooks of the server run while it waits for them.
type run struct {
	*core
	setting  setting
	fleet    *fleet
	gate     *gate.Gate
	delays   *delays
	judge    *judge
	chooser  *chooser
	steps    int
	settling time.Time // when the first step was taken
	next     int       // step of the workload
	again    int       // the step that could not be done once, from 1; 0: none
	hurried  bool      // the step comes before its time
}

// setting has the values on which the result of a run must not depend: the seed
// of UIDs and generated names, and the time of the day. Runs with faults have
// seed 1 and no start.
type setting struct {
	seed  uint64
	start time.Duration
	stay  bool   // the program has to stay at rest
	long  bool   // it has an hour to react to a change of an input
	await *await // what it waits for at a rest, nil for nothing
}

// newRun makes the world of a case, with all hooks in place. Nothing of the
// program has started.
func newRun(of subject, p plan.Plan, s setting) (*run, error) {
	c, r := of.c, &core{subject: of, given: p, plan: p, faultless: len(p) == 0, out: newOutcome()}
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
	r.world = c.Parts().On(backend.Simulated{Server: r.sim})
	if err := backend.Begin(r.world.server, c.Objects...); err != nil {
		return nil, err
	}
	r.errs.take() // discard those of an earlier run
	fleet, delays := newFleet(r), newDelays(r)
	judge := newJudge(r, len(fleet.replicas) > 1)
	r.sim.Deny(judge.called)
	r.sim.OnCommit(judge.committed)
	r.sim.OnAnswer(judge.answers.see)
	r.sim.ReplyWith(judge.reply)
	r.out.affected = judge.lasting.affected
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
		chooser: &chooser{
			core: r, fleet: fleet, delays: delays, judge: judge,
			retries: &retries{core: r, fleet: fleet, retryAt: map[string]time.Time{}},
		},
	}, nil
}

// waitQuiet lets things happen until nothing was written for Options.Rest, and
// no actor is due: then the program is at rest. A run that takes more than
// Options.Steps never is.
func (r *run) waitQuiet(ctx context.Context) {
	r.progress = time.Now()
	if r.settling.IsZero() {
		r.settling = r.progress
	}
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
// Each round begins when every goroutine of the bubble is blocked. It either
// lets a worker of a queue in, or takes one action of the scheduler, or, if
// there is none, lets virtual time pass until something can happen.
func (r *run) live(ctx context.Context, until func() time.Time) {
	for {
		enabled := r.sched.Enabled() // every goroutine is blocked: the hooks' records may be read
		for _, l := range r.errs.take() {
			r.line(l)
		}
		if text := r.gate.Reads.Unnamed(); text != "" {
			r.find(report.Watch, report.Unnamed, text)
		}
		if r.chooser.retries.judge(enabled); r.out.finding != nil {
			return
		}
		if r.returned(ctx) {
			continue
		}
		entered := r.admit()
		if !entered && r.early(ctx) {
			continue
		}
		if !entered && !acts(enabled) && !time.Now().Before(until()) {
			return
		}
		if r.steps++; r.steps > r.o.Steps {
			r.restless()
			return
		}
		if !entered && !r.act(enabled) {
			r.sched.Idle(r.patience(until()))
		}
	}
}

// act takes one action of the scheduler, and reports whether there was one.
func (r *run) act(enabled []apisim.Action) bool {
	a, f, ok := r.chooser.pick(enabled)
	if ok {
		r.chooser.take(a, f)
		r.chooser.age()
	}
	return ok
}

// admit lets a worker of a queue in, and reports whether one was waiting.
func (r *run) admit() bool {
	queue, open := r.gate.Open(r.chance())
	r.out.drift.gated = r.out.drift.gated || open
	r.out.drift.reached = r.out.drift.reached || open && r.out.drift.began && !r.tail && !gate.Maps(queue)
	return open
}

// restless is for a run that does not come to rest. If it is slow, it is driven
// by a clock, not by its own events.
func (r *run) restless() {
	why, pace := report.WakesItself, ""
	if took := time.Since(r.settling); took >= slowStep*time.Duration(r.steps) {
		why, pace = report.Seldom, fmt.Sprintf(" in %v, now and then", took.Round(time.Minute))
	}
	if r.collected > 0 && len(r.out.lines)-r.collected < justNow {
		why = report.Collected
	}
	if r.given.Has(plan.Rollout) {
		why = report.MixedVersions
	}
	r.find(report.Rest, why, fmt.Sprintf("it never comes to rest: %d steps%s, and the last write was %v ago",
		r.o.Steps, pace, time.Since(r.progress)))
}

// justNow is how many lines of the trace ago the collector acts at most in a
// loop of which it is a part.
const justNow = 12

// slowStep is how long a step takes at least, on average, if the program writes
// by the clock. One that wakes itself takes none, or the 100 ms of a queue's
// limiter for each write, which is several steps.
const slowStep = 200 * time.Millisecond

// patience is how long virtual time may pass until something has to be decided:
// the run is at rest, a delay ends, a replica boots, an actor is due.
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

// dues are the times at which actors will act; now, for those that would act at
// once. A late actor is due when it is no longer late.
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

// step does the next step of the workload, and reports whether that was
// possible. A step that fails is repeated at the next rest: with faults its
// object may not exist yet, or may still exist. If it fails again, that is the
// program's fault, unless the step may be half done: then the run ends without
// a finding.
func (r *run) step(ctx context.Context) bool {
	step, version := r.c.Workload[r.next], r.sim.Version()
	r.line("others    " + step.Name)
	r.progress = time.Now()
	err := step.Do(ctx, r.world)
	r.out.outside = r.out.outside || r.hurried && r.sim.Version() == version
	switch again := r.again == r.next+1; {
	case err == nil, again && step.gone != nil && step.gone(err):
		r.next++
		return true
	case !r.faultless && !again:
		r.again = r.next + 1
		r.line("  cannot be done yet: " + err.Error())
		return false
	case r.faultless || step.single && r.judge.lasting.at == 0: // a refusal may stand in its way
		r.find(report.Workload, report.StepFails, fmt.Sprintf("step %q of the workload: %v", step.Name, err))
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
	r.hurried = true
	r.step(ctx)
	r.hurried = false
	return true
}

// haltAll stops the replicas, one after the other: their calls are served until
// they have returned. A partition ends before.
func (r *run) haltAll() {
	for _, p := range r.fleet.replicas {
		p.apart = time.Time{}
		switch {
		case !p.down.IsZero() || p.stuck:
		case stacks.Syncing():
			r.fleet.unsynced(p)
		default:
			p.end()
			r.join(p, true)
		}
		p.halted, p.down, p.stopped = true, time.Time{}, time.Time{}
	}
}

// returned reports whether a replica has crashed, ended, or booted again, and
// handles that: the next action is chosen when every goroutine is blocked
// again.
func (r *run) returned(ctx context.Context) bool {
	for _, p := range r.fleet.replicas {
		switch {
		case p.halted && p.stopped.IsZero() && p.down.IsZero():
			continue
		case p.crashed:
			r.join(p, false)
			r.fleet.restart(p, "crashed")
			return true
		case !p.down.IsZero():
			if time.Now().Before(p.down) {
				continue
			}
			r.line("restart   " + p.client)
			r.fleet.boot(ctx, p)
			return true
		}
		select {
		case err := <-p.done:
			p.done <- err
			r.fleet.ended(p, err)
			return true
		default:
			r.look(p)
			if !p.stopped.IsZero() && time.Since(p.stopped) > stopWithin {
				r.fleet.blocked(p)
			}
		}
	}
	return false
}

// join waits until Run has returned. With serve, its calls are still answered,
// as for a program that stops.
func (r *run) join(p *replica, serve bool) {
	deadline := time.Now().Add(stopWithin)
	for range 100_000 {
		enabled := r.sched.Enabled()
		select {
		case err := <-p.done:
			p.done <- err
			r.fleet.mutated(err)
			r.fleet.late(p)
			return
		default:
		}
		r.look(p)
		if time.Now().After(deadline) {
			break
		}
		if r.admit() {
			continue
		}
		if a, f, ok := r.chooser.pick(enabled); ok && serve {
			r.chooser.take(a, f)
			continue
		}
		r.sched.Idle(time.Second)
	}
	r.fleet.blocked(p)
}

// look records what a late replica is waiting for. Its time starts again while
// the plan delays something.
func (r *run) look(p *replica) {
	switch now := time.Now(); {
	case p.killed.IsZero() || p.waits != "":
	case now.Before(p.apart) || r.delays.any():
		p.killed = killAt()
	case !now.Before(p.killed):
		p.waits = stacks.Diagnose()
	}
}
