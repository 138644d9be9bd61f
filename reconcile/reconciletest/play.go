package reconciletest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat/homeostat/internal/simhook"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// play makes the whole run. It records its findings in the outcome.
//
// The program boots and comes to rest. Then come the steps of the workload,
// each followed by a rest. Finally, Goal is checked, and a restart must not
// write.
//
// The deviations of the plan happen on the way. [chooser.pick] applies the
// deviations of calls, deliveries and actors, disturbRest the deviations of a
// rest, work and stepEarly the deviations of a step, and drift and change the
// deviations of outputs and inputs. After the first finding, no further
// deviation is applied and the run ends.
func (r *run) play(ctx context.Context) {
	defer simhook.Use(r.gate.Hooks())()
	if r.c.Before != nil {
		r.runOldVersion(ctx)
	}
	r.spoil(0)
	r.fleet.bootAll(ctx)
	r.waitQuiet(ctx)
	r.disturbRest(ctx)
	for r.next < len(r.c.Workload) && r.out.finding == nil && !r.out.void {
		r.waitAtRest(ctx)
		r.rest()
		r.work(ctx)
		r.waitQuiet(ctx)
		r.disturbRest(ctx)
	}
	outputs := r.judge.existing(r.judge.created)
	for _, o := range outputs {
		r.out.created[o.resource]++
	}
	r.out.written = append(slices.Clone(outputs), r.judge.existing(r.judge.written)...)
	r.out.outputs = slices.DeleteFunc(outputs, func(o output) bool { return slices.Contains(r.c.Unwatched, o.resource) })
	r.out.inputs = r.inputs()
	r.drift(ctx)
	r.change(ctx)
	r.waitAtRest(ctx)
	if r.out.finding == nil && !r.out.void && r.out.changed == "" && r.judge.lasting.kind == 0 && r.c.Goal != nil &&
		r.judge.judges() {
		if err := ask(r.c.Goal, r.world); err != nil {
			r.find(report.Goal, r.reason(report.Seen{End: true}), err.Error())
		}
	}
	r.judge.answers.recordFinal()
	r.rest()
	if r.setting.stay {
		r.stay(ctx)
	}
	// A restart makes the program reconcile every object again.
	if _, lasts := r.given.Lasting(); r.out.finding == nil && !lasts {
		r.tail, r.out.whole = true, true
		r.restart(ctx)
	}
	if r.out.finding == nil && r.out.ignored != nil {
		r.restartAgain(ctx)
	}
	r.haltAll()
	r.sched.Stop()
	r.out.finding = cmp.Or(r.out.finding, r.out.overdue)
}

// runOldVersion runs the version of Case.Before until it is at rest, and stops
// it. If the plan says so, it first replaces one replica with the new version,
// and waits until all replicas are at rest again.
func (r *run) runOldVersion(ctx context.Context) {
	r.line("before    the old version starts")
	r.old = true
	for _, p := range r.fleet.replicas {
		p.old = true
	}
	r.fleet.bootAll(ctx)
	r.waitQuiet(ctx)
	if first := r.fleet.replicas[0]; r.given.Has(plan.Rollout) && len(r.fleet.replicas) > 1 {
		r.struck()
		r.line("rollout   one replica is of the new version")
		first.end()
		r.join(first, true)
		first.old = false
		r.fleet.boot(ctx, first)
		r.waitQuiet(ctx)
	}
	r.haltAll()
	r.line("restart   the program, in its new version")
	for _, p := range r.fleet.replicas {
		p.old = false
	}
	r.old, r.out.wroteAt = false, -1
}

// restart restarts the program at the end of a run, when it must not write.
func (r *run) restart(ctx context.Context) {
	r.line("restart: all is done, so nothing may be written")
	r.haltAll()
	r.fleet.bootAll(ctx)
	r.waitQuiet(ctx)
}

// rest records the server's state while the program is at rest. The states are
// compared later with the states of the run without faults. Unless there is a
// finding, rest also compares the program's caches with the server, and checks
// the statuses that the program has written.
func (r *run) rest() {
	r.out.restedAt = append(r.out.restedAt, len(r.out.lines))
	r.out.states = append(r.out.states, state.OfServer(r.sim, r.ignore, r.foreign))
	r.out.commits = append(r.out.commits, len(r.judge.versions))
	r.out.undoable = append(r.out.undoable, len(r.judge.undoable))
	r.judge.recordOutputs()
	if r.out.finding == nil {
		r.fleet.checkCaches()
		if r.out.changed == "" && r.judge.lasting.kind == 0 {
			r.judge.checkStatus()
		}
	}
}

// work does the next step of the workload. If the plan says so, it does this
// step, and perhaps the step after it, while the program is down.
func (r *run) work(ctx context.Context) {
	d, isDown := r.plan.Find(plan.Offline, r.next+1)
	if !isDown {
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
		r.waitQuiet(ctx)
	}
	r.line("restart   the program")
	r.fleet.bootAll(ctx)
}

// stay lets time pass. It records a finding if the state changes in anything
// except times.
func (r *run) stay(ctx context.Context) {
	deadline, start := time.Now().Add(stayTime), len(r.out.lines)
	r.judge.answers.staying = true
	r.runUntil(ctx, func() time.Time { return deadline })
	r.judge.answers.staying = false
	r.out.stayed = r.out.lines[start:]
	last := r.out.states[len(r.out.states)-1]
	if diff := state.OfServer(r.sim, r.ignore, r.foreign).Diff(last, nil); len(diff) > 0 {
		r.find(report.Stay, report.ByClock, fmt.Sprintf(
			"it was at rest, and has changed within %v (- before, + after):\n    %s", stayTime, strings.Join(diff, "\n    ")))
	}
}

// disturbRest applies the deviations that the plan has for this rest, and waits
// until the program is at rest again.
func (r *run) disturbRest(ctx context.Context) {
	rest := len(r.out.states) + 1
	if r.spoil(rest); r.out.finding == nil && r.judge.lasting.kind == plan.Garbled {
		r.waitQuiet(ctx)
	}
	for _, d := range r.plan {
		if d.Index != rest || r.out.finding != nil {
			continue
		}
		if slices.Contains([]byte{plan.Unserved, plan.Restarted, plan.Unsynced, plan.Asleep, plan.Restored}, d.Kind) {
			r.struck()
		}
		switch d.Kind {
		case plan.Restarted:
			r.judge.quiet = d.N == 0
			r.reboot(ctx, d.Words(), func() { r.freeze(d.N) })
		case plan.Unsynced:
			r.judge.quiet = true
			r.reboot(ctx, d.Words(), func() { r.delays.holdLists(d.N) })
		case plan.Restored:
			r.reboot(ctx, d.Words(), func() { r.restore(d.N) })
		case plan.Unserved:
			r.unserve(d.N)
			r.waitQuiet(ctx)
			r.judge.wanted = nil
		case plan.Asleep:
			r.line("ASLEEP    " + sleepTime.String())
			r.sched.Wait(sleepTime)
			r.waitQuiet(ctx)
		}
	}
}

// reboot stops the program, calls change, and starts the program again.
func (r *run) reboot(ctx context.Context, reason string, change func()) {
	r.line("restart   the program: " + reason)
	r.haltAll()
	change()
	r.fleet.bootAll(ctx)
	r.waitQuiet(ctx)
	r.judge.quiet, r.judge.wanted = false, nil
}

// restore restores the server to its state before its last n writes. It does
// nothing if a step of the workload is among them.
func (r *run) restore(n int) {
	undo := r.judge.undoable
	if n > len(undo) {
		return
	}
	if err := r.sim.Restore(undo[len(undo)-n] - 1); err != nil {
		r.line("  " + err.Error())
	}
	r.judge.undoable = undo[:len(undo)-n]
}

// freeze makes the program read, for Options.Lag, from caches that are n writes
// to watched resources behind. If n is 0, it does nothing.
func (r *run) freeze(n int) {
	versions := r.judge.versions
	if n == 0 || len(versions) == 0 {
		return
	}
	version := versions[max(len(versions)-n, 0)] - 1
	for _, p := range r.fleet.replicas {
		r.sim.Freeze(p.client, version)
	}
	r.judge.protect()
	r.delays.frozen = time.Now().Add(r.o.Lag)
}

// drift deletes or edits an output, if the plan says so. The program must
// repair it, because the state at the end is compared as in every run. The plan
// may also delete an output while another client's finalizer holds it, or add
// another client's fields to an object that the program has written; see detain
// and mark.
func (r *run) drift(ctx context.Context) {
	for i, o := range r.out.outputs {
		steps := []struct {
			kind byte
			step Step
		}{{plan.Deleted, Delete(o.resource, o.key)}, {plan.Edited, o.edit()}}
		for _, s := range steps {
			if _, now := r.plan.Find(s.kind, i+1); !now || r.out.finding != nil {
				continue
			}
			r.struck()
			r.out.drift.note(&o)
			if have := r.object(&o); have != nil {
				r.out.drift.unowned = len(have.GetOwnerReferences()) == 0
			}
			r.stepAsOther(ctx, s.step)
			r.waitQuiet(ctx)
		}
	}
	for i, o := range r.out.outputs {
		if _, now := r.plan.Find(plan.Detained, i+1); now && r.out.finding == nil {
			r.struck()
			r.out.drift.note(&o)
			r.detain(ctx, o.resource, o.key)
		}
	}
	for i, o := range r.out.written {
		if _, now := r.plan.Find(plan.Marked, i+1); now && r.out.finding == nil {
			r.struck()
			r.mark(ctx, &o)
		}
	}
}

// mark adds another client's fields to an object, and modifies one of the
// program's own values. The program must repair its value without removing the
// fields. At the end, mark removes the fields itself. It does nothing if the
// object does not exist or is being deleted.
func (r *run) mark(ctx context.Context, o *output) {
	original := r.object(o)
	if original == nil || original.GetDeletionTimestamp() != nil {
		return
	}
	fields := r.foreignFields(original, o.resource)
	finalizers := append(original.GetFinalizers(), state.RivalKey)
	r.stepAsOther(ctx, Patch(o.resource, o.key, marks(true, fields, finalizers)))
	marked := r.object(o)
	if marked == nil || marked.GetUID() != original.GetUID() {
		return
	}
	want := state.Foreign(marked, fields)
	r.waitQuiet(ctx)
	if len(o.leaf) > 0 {
		r.stepAsOther(ctx, o.edit())
		r.waitQuiet(ctx)
	}
	current := r.object(o)
	if r.out.finding != nil || current == nil || current.GetUID() != original.GetUID() {
		return
	}
	if lost := missing(state.Foreign(current, fields), want); lost != "" {
		r.find(report.Lost, report.Overwrites, fmt.Sprintf("it removes another client's additions to %s %s: %s",
			o.resource, o.key, lost))
		return
	}
	ownFinalizers := slices.DeleteFunc(current.GetFinalizers(), func(f string) bool { return f == state.RivalKey })
	r.stepAsOther(ctx, Patch(o.resource, o.key, marks(false, fields, ownFinalizers)))
	r.waitQuiet(ctx)
}

// stepAsOther performs a step as another client, in addition to the workload.
// It adds an error to the trace, unless the object does not exist.
func (r *run) stepAsOther(ctx context.Context, s Step) {
	r.line("others    " + s.Name)
	r.progress = time.Now()
	if err := s.Do(ctx, r.world); err != nil && !apierrors.IsNotFound(err) {
		r.line(fmt.Sprint("  ", err))
	}
}

// object returns the live object of an output, or nil if it is deleted.
func (r *run) object(o *output) *unstructured.Unstructured {
	objects, _ := r.world.Objects(o.resource)
	for _, have := range objects {
		if state.KeyOf(have) == o.key {
			return have
		}
	}
	return nil
}
