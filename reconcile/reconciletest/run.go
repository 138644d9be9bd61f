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
// it. That goroutine waits while the hooks of the server run.
type run struct {
	*core
	setting  setting
	fleet    *fleet
	gate     *gate.Gate
	delays   *delays
	judge    *judge
	chooser  *chooser
	steps    int
	settling time.Time // when the run first began to wait for a rest
	next     int       // the next step of the workload
	repeated int       // the number, from 1, of the step that has failed once; 0 if no step has
	hurried  bool      // whether a step is being done before its time
}

// setting has the parameters of a run besides its plan. seed determines UIDs
// and generated names, and start shifts the time of day. The result of a run
// must not depend on them. In runs with faults, seed is 1 and start is 0.
type setting struct {
	seed  uint64
	start time.Duration
	stay  bool   // whether the program has to stay at rest at the end
	long  bool   // whether the program has an hour to react to a change of an input
	await *await // what the run waits for at a rest, or nil
}

// newRun makes the world of a case, with all hooks in place. It does not start
// the program.
func newRun(subj subject, p plan.Plan, s setting) (*run, error) {
	c, r := subj.c, &core{subject: subj, given: p, plan: p, faultless: len(p) == 0, out: newOutcome()}
	if d, found := p.First(plan.Shuffled); found {
		r.random = rand.New(rand.NewPCG(uint64(d.Index), 1))
		r.struck()
	}
	if p.Has(plan.Skewed) { // the day is the same for the server and the program
		s.start += 2 * farSkew
	}
	if s.start > 0 {
		<-time.NewTimer(s.start).C
	}
	var err error
	r.sim, err = apisim.New(&apisim.Options{
		Resources: c.resources(), NoStreamingLists: true, Lifecycle: true, Seed: s.seed, Skew: skews(p), Silent: silentOf(p),
	})
	if err != nil {
		return nil, err
	}
	r.world = c.Parts().World(backend.Simulated{Server: r.sim})
	if err := backend.Begin(r.world.server, c.Objects...); err != nil {
		return nil, err
	}
	r.errs.take() // discard the errors of an earlier run
	fleet, delays := newFleet(r), newDelays(r)
	judge := newJudge(r, len(fleet.replicas) > 1)
	if p.Has(plan.Mutated) {
		r.struck()
		r.sim.MutateWith(judge.mutate)
	}
	r.sim.Deny(judge.called)
	r.sim.OnCommit(judge.committed)
	r.sim.OnAnswer(judge.answers.record)
	r.sim.ReplyWith(judge.reply)
	r.out.affected = judge.lasting.affected
	r.sched = r.sim.Schedule(-1) // the scheduler records no trace, because the run does
	r.sched.OnCrash(fleet.crash)
	collector, steps := r.sim.Collector(), 0
	r.sched.Add(judge.extra(Actor{
		Name: collecting, Enabled: func(*World) bool { return collector.Pending() },
		Do: func(*World) { collector.Step() },
	}))
	for _, a := range c.Actors {
		r.sched.Add(judge.extra(a))
	}
	if p.Has(plan.Outage) {
		steps = -hourOfSteps
	}
	return &run{
		steps: steps,
		core:  r, setting: s, fleet: fleet, gate: &gate.Gate{Wake: r.sched.Wake}, delays: delays, judge: judge,
		chooser: &chooser{
			core: r, fleet: fleet, delays: delays, judge: judge,
			retries: &retries{core: r, fleet: fleet, retryAt: map[string]time.Time{}},
		},
	}, nil
}

// collecting is the name of the garbage collector as an actor.
const collecting = "collect garbage"

// waitQuiet runs the world until it is at rest: there was no write for
// Options.Rest, and no actor is due. It is a finding if the whole run has then
// taken more than Options.Steps steps.
func (r *run) waitQuiet(ctx context.Context) {
	r.progress = time.Now()
	if r.settling.IsZero() {
		r.settling = r.progress
	}
	r.runUntil(ctx, func() time.Time {
		last := r.progress
		for _, due := range r.dues() {
			if due.After(last) {
				last = due
			}
		}
		if quiet := last.Add(r.o.Rest); quiet.After(r.delays.healed) {
			return quiet
		}
		return r.delays.healed
	})
}

// runUntil runs the world until the time that deadline returns, or until there
// is a finding. That time may change with each action.
//
// Each round begins when every goroutine of the bubble is blocked. It admits
// one worker of a queue, or else takes one action of the scheduler. If there is
// neither, it lets virtual time pass until an action is possible.
func (r *run) runUntil(ctx context.Context, deadline func() time.Time) {
	for {
		enabled := r.sched.Enabled() // every goroutine is blocked: the hooks' records may be read
		if r.traceErrors(enabled); r.out.finding != nil {
			return
		}
		if r.returned(ctx) || r.renew() {
			continue
		}
		entered := r.admit()
		if !entered && r.stepEarly(ctx) {
			continue
		}
		if !entered && !acts(enabled) && !time.Now().Before(deadline()) {
			return
		}
		if r.steps++; r.steps > r.o.Steps {
			r.restless()
			return
		}
		if !entered && !r.act(enabled) && !r.interrupt() {
			r.pass(deadline())
		}
	}
}

// traceErrors adds the errors that the program has logged to the trace, and
// runs the oracles that need no write.
func (r *run) traceErrors(enabled []apisim.Action) {
	for _, l := range r.errs.take() {
		r.line(l)
	}
	if text := r.gate.Reads.Unnamed(); text != "" {
		r.find(report.Watch, report.Unnamed, text)
	}
	r.chooser.retries.judge(enabled)
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

// interrupt tells a replica to stop before time passes, if the plan says so,
// and reports whether it has done so. At such a time, a reconcile may be
// waiting for a process outside of the server.
func (r *run) interrupt() bool {
	for _, p := range r.fleet.replicas {
		d, now := r.planned(plan.Paused, r.out.pauses+1)
		if !now || d.N != p.id || p.halted || stacks.Syncing() {
			continue
		}
		r.chooser.remove(d)
		r.line("STOP      " + p.client + ", while it waits")
		p.stop()
		return true
	}
	return false
}

// pass lets time pass until an action is possible.
func (r *run) pass(deadline time.Time) {
	start := time.Now()
	r.sched.Idle(r.maxWait(deadline))
	if !r.tail && !r.old && time.Now().After(start) {
		r.out.pauses++
		r.chooser.idle = true
	}
}

// admit admits one worker of a queue, and reports whether one was waiting.
func (r *run) admit() bool {
	queue, open := r.gate.Open(r.chance())
	r.out.drift.gated = r.out.drift.gated || open
	r.out.drift.reached = r.out.drift.reached || open && r.out.drift.began && !r.tail && !gate.Maps(queue)
	return open
}

// restless records a finding about a run that does not come to rest. If the
// steps took much virtual time, the finding says that the program acts by a
// clock and not because of its own events.
func (r *run) restless() {
	reason, pace := report.WakesItself, ""
	if elapsed := time.Since(r.settling); elapsed >= slowStep*time.Duration(r.steps) {
		reason, pace = report.Seldom, fmt.Sprintf(" in %v, now and then", elapsed.Round(time.Minute))
	}
	if r.collected > 0 && len(r.out.lines)-r.collected < recentLines {
		reason = report.Collected
	}
	if r.given.Has(plan.Rollout) {
		reason = report.MixedVersions
	}
	if r.given.Has(plan.Mutated) {
		reason = report.Mutated
	}
	if r.given.Clock() != 0 {
		reason = report.Clocks
	}
	r.find(report.Rest, reason, fmt.Sprintf("it never comes to rest: %d steps%s, and the last write was %v ago",
		r.o.Steps, pace, time.Since(r.progress)))
}

// recentLines is how many lines at the end of the trace count as recent. If the
// garbage collector has acted in these lines, it takes part in the loop of a
// program that never comes to rest.
const recentLines = 12

// slowStep is the minimum average time of a step if the program writes by a
// clock. If the program wakes itself, a step takes no time, or a part of the
// first back-off of a queue, which is at most 100 ms.
const slowStep = 200 * time.Millisecond

// maxWait returns how long virtual time may pass until the run has to decide
// again, because it is at rest, a delay or a partition ends, a replica boots or
// would be killed, or an actor is due.
func (r *run) maxWait(deadline time.Time) time.Duration {
	wait := time.Until(deadline)
	for _, t := range append(r.delays.ends(), r.dues()...) {
		if d := time.Until(t); d > 0 {
			wait = min(wait, d)
		}
	}
	for _, p := range r.fleet.replicas {
		for _, t := range []time.Time{p.bootsAt, p.apartUntil, p.killed} {
			if d := time.Until(t); d > 0 {
				wait = min(wait, d)
			}
		}
	}
	return max(wait, time.Millisecond)
}

// dues returns the times at which actors will act: the present time for each
// actor that has something to do now, the time that Actor.Due returns, and the
// end of the delay of each late actor. Actors without Due are left out.
func (r *run) dues() []time.Time {
	var times []time.Time
	for _, a := range r.c.Actors {
		if a.Due == nil {
			continue
		}
		if a.Enabled(r.world) {
			times = append(times, time.Now())
		}
		if due := a.Due(r.world); !due.IsZero() {
			times = append(times, due)
		}
	}
	return append(times, r.delays.actorsDue()...)
}

// step does the next step of the workload, and reports whether it has
// succeeded. In a run without faults, a step that fails is a finding. With
// faults, it is repeated at the next rest, because its object may not exist
// yet, or may still exist. If it fails again, step records a finding, or ends
// the run without a result if the step may be half done or a lasting fault may
// prevent it.
func (r *run) step(ctx context.Context) bool {
	step, version := r.c.Workload[r.next], r.sim.Version()
	r.line("others    " + step.Name)
	r.progress = time.Now()
	err := step.Do(ctx, r.world)
	r.out.onlyOutside = r.out.onlyOutside || r.hurried && r.sim.Version() == version
	switch repeated := r.repeated == r.next+1; {
	case err == nil, repeated && step.needless != nil && step.needless(err):
		r.next++
		return true
	case !r.faultless && !repeated:
		r.repeated = r.next + 1
		r.line("  cannot be done yet: " + err.Error())
		return false
	case r.faultless || step.single && r.judge.lasting.kind == 0: // a refusal may stand in its way
		r.find(report.Workload, report.StepFails, fmt.Sprintf("step %q of the workload: %v", step.Name, err))
	default:
		r.out.void = true
	}
	return false
}

// stepEarly does a step of the workload before its time, if the plan says so,
// and reports whether it has done so.
func (r *run) stepEarly(ctx context.Context) bool {
	d, now := r.planned(plan.Early, r.out.decisions+1)
	if !now || r.next >= len(r.c.Workload) {
		return false
	}
	r.chooser.remove(d)
	r.hurried = true
	r.step(ctx)
	r.hurried = false
	return true
}

// haltAll stops the replicas, one after the other. It ends their partitions
// first, and serves their calls until Run has returned.
func (r *run) haltAll() {
	for _, p := range r.fleet.replicas {
		p.apartUntil = time.Time{}
		switch {
		case !p.bootsAt.IsZero() || p.stuck:
		case stacks.Syncing():
			r.fleet.unsynced(p)
		default:
			p.end()
			r.join(p, true)
		}
		p.halted, p.bootsAt, p.stopped = true, time.Time{}, time.Time{}
	}
}

// returned handles a replica that has crashed, has ended, or has to boot again.
// It reports whether there was one. The next action must then wait until every
// goroutine is blocked again.
func (r *run) returned(ctx context.Context) bool {
	for _, p := range r.fleet.replicas {
		switch {
		case p.halted && p.stopped.IsZero() && p.bootsAt.IsZero():
			continue
		case p.crashed:
			r.join(p, false)
			r.fleet.restart(p, "crashed")
			return true
		case !p.bootsAt.IsZero():
			if time.Now().Before(p.bootsAt) {
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

// join waits until Run has returned. If serve is set, the calls of the replica
// are still served, as for a program that stops in an orderly way. If Run does
// not return within stopWithin, join records a finding.
func (r *run) join(p *replica, serve bool) {
	deadline := time.Now().Add(stopWithin)
	for range 100_000 {
		enabled := r.sched.Enabled()
		select {
		case err := <-p.done:
			p.done <- err
			r.fleet.exit(p)
			r.fleet.mutated(err)
			r.fleet.noteLate(p)
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

// look records what a replica is waiting for at the time when a cluster would
// kill it. As long as the plan delays an action, or separates the replica from
// the server, look postpones that time.
func (r *run) look(p *replica) {
	switch now := time.Now(); {
	case p.killed.IsZero() || p.waits != "":
	case now.Before(p.apartUntil) || r.delays.isActive():
		p.killed = killAt()
	case !now.Before(p.killed):
		p.waits = stacks.Diagnose()
	}
}
