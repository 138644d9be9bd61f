package reconciletest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/simhook"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// play runs everything. Its findings are in the outcome.
//
// The program boots and comes to rest; then come the steps of the workload,
// each followed by a rest; then Goal is checked, and a restart may write
// nothing. The deviations of the plan strike on the way: in [chooser.pick]
// those of calls, deliveries and actors, in disturbRest those of a rest, in
// work and early those of a step, and in drift those of the outputs. After the
// first finding nothing more is disturbed, and the run ends.
func (r *run) play(ctx context.Context) {
	defer simhook.Use(r.gate.Hooks())()
	if r.c.Before != nil {
		r.before(ctx)
	}
	r.fleet.bootAll(ctx)
	r.waitQuiet(ctx)
	r.disturbRest(ctx)
	for r.next < len(r.c.Workload) && r.out.finding == nil && !r.out.void {
		r.settle(ctx)
		r.rest()
		r.work(ctx)
		r.waitQuiet(ctx)
		r.disturbRest(ctx)
	}
	made := r.judge.existing(r.judge.created)
	r.out.written = append(slices.Clone(made), r.judge.existing(r.judge.written)...)
	r.out.outputs = slices.DeleteFunc(made, func(o output) bool { return slices.Contains(r.c.Unwatched, o.resource) })
	r.out.inputs = r.inputs()
	r.drift(ctx)
	r.change(ctx)
	r.settle(ctx)
	if r.out.finding == nil && !r.out.void && r.out.changed == "" && r.judge.lasting.at == 0 && r.c.Goal != nil {
		if err := ask(r.c.Goal, r.world); err != nil {
			r.find(report.Goal, r.why(report.Seen{End: true}), err.Error())
		}
	}
	r.rest()
	if r.setting.stay {
		r.stay(ctx)
	}
	// A restart lets the program reconcile everything once more.
	if _, lasts := r.given.Lasting(); r.out.finding == nil && !lasts {
		r.tail, r.out.whole = true, true
		r.restart(ctx)
	}
	if r.out.finding == nil && r.out.unwoken != nil {
		r.onceMore(ctx)
	}
	r.haltAll()
	r.sched.Stop()
	r.out.finding = cmp.Or(r.out.finding, r.out.late)
}

// before runs the version of Case.Before until it is at rest, and stops it. If
// the plan says so, one replica of the new version runs beside the others until
// they are at rest, too.
func (r *run) before(ctx context.Context) {
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

// restart is the last one.
func (r *run) restart(ctx context.Context) {
	r.line("restart: all is done, so nothing may be written")
	r.haltAll()
	r.fleet.bootAll(ctx)
	r.waitQuiet(ctx)
}

// rest records the server's state while the program is at rest, and compares
// the program's caches with it. The states are compared with those of the run
// without faults later.
func (r *run) rest() {
	r.out.restedAt = append(r.out.restedAt, len(r.out.lines))
	r.out.states = append(r.out.states, state.OfServer(r.sim, r.ignore))
	r.out.commits = append(r.out.commits, len(r.judge.versions))
	r.judge.keep()
	if r.out.finding == nil {
		r.fleet.checkCaches()
		if r.out.changed == "" && r.judge.lasting.at == 0 {
			r.judge.checkStatus()
		}
	}
}

// work does the next step of the workload, or, if the plan says so, several
// while the program is down.
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
		r.waitQuiet(ctx)
	}
	r.line("restart   the program")
	r.fleet.bootAll(ctx)
}

// stay lets time pass. Nothing but times may change.
func (r *run) stay(ctx context.Context) {
	until, from := time.Now().Add(stayTime), len(r.out.lines)
	r.judge.answers.staying = true
	r.live(ctx, func() time.Time { return until })
	r.judge.answers.staying = false
	r.out.stayed = r.out.lines[from:]
	before := r.out.states[len(r.out.states)-1]
	if diff := state.OfServer(r.sim, r.ignore).Diff(before, nil); len(diff) > 0 {
		r.find(report.Stay, report.ByClock, fmt.Sprintf(
			"it was at rest, and has changed within %v (- before, + after):\n    %s", stayTime, strings.Join(diff, "\n    ")))
	}
}

// disturbRest applies the plan's deviations at this rest, and comes to rest again.
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
			r.waitQuiet(ctx)
		}
	}
}

// reboot restarts the program in another world.
func (r *run) reboot(ctx context.Context, why string, change func()) {
	r.line("restart   the program: " + why)
	r.haltAll()
	change()
	r.fleet.bootAll(ctx)
	r.waitQuiet(ctx)
	r.judge.quiet, r.judge.wanted = false, nil
}

// freeze sets the server's caches back by n writes, for a while.
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

// drift deletes or edits an output, if the plan says so. The program has to
// repair it: the state at the end is compared as in every run.
func (r *run) drift(ctx context.Context) {
	for i, o := range r.out.outputs {
		steps := []struct {
			at byte
			do Step
		}{{plan.Deleted, Delete(o.resource, o.key)}, {plan.Edited, o.edit()}}
		for _, s := range steps {
			if _, now := r.plan.Find(s.at, i+1); !now || r.out.finding != nil {
				continue
			}
			r.struck()
			r.out.drift.of(&o)
			if have := r.object(&o); have != nil {
				r.out.drift.unowned = len(have.GetOwnerReferences()) == 0
			}
			r.others(ctx, s.do)
			r.waitQuiet(ctx)
		}
	}
	for i, o := range r.out.written {
		if _, now := r.plan.Find(plan.Marked, i+1); now && r.out.finding == nil {
			r.struck()
			r.mark(ctx, &o)
		}
	}
}

// mark adds another client's fields to an object and modifies one of the
// program's own values, which it has to repair. It lets the program react, and
// then removes the fields again.
func (r *run) mark(ctx context.Context, o *output) {
	before := r.object(o)
	if before == nil || before.GetDeletionTimestamp() != nil {
		return
	}
	field := r.foreignField(before, o.resource)
	with := append(before.GetFinalizers(), state.RivalKey)
	r.others(ctx, Patch(o.resource, o.key, marks(`"yes"`, field, foreign[o.resource].value, with)))
	marked := r.object(o)
	if marked == nil || marked.GetUID() != before.GetUID() {
		return
	}
	want := state.Foreign(marked)
	r.waitQuiet(ctx)
	if len(o.leaf) > 0 {
		r.others(ctx, o.edit())
		r.waitQuiet(ctx)
	}
	after := r.object(o)
	if r.out.finding != nil || after == nil || after.GetUID() != before.GetUID() {
		return
	}
	if lost := missing(state.Foreign(after), want); lost != "" {
		r.find(report.Lost, report.Overwrites, fmt.Sprintf("it removes another client's additions to %s %s: %s",
			o.resource, o.key, lost))
		return
	}
	own := slices.DeleteFunc(after.GetFinalizers(), func(f string) bool { return f == state.RivalKey })
	r.others(ctx, Patch(o.resource, o.key, marks("null", field, "null", own)))
	r.waitQuiet(ctx)
}

// marks returns a merge patch that sets another client's fields to "yes" and to
// value, or removes them with null. Without a field it leaves the spec alone.
func marks(label, field, value string, finalizers []string) string {
	list, _ := json.Marshal(append([]string{}, finalizers...))
	spec := ""
	if field != "" {
		spec = fmt.Sprintf(`"spec":{%q:%s},`, field, value)
	}
	return fmt.Sprintf(`{%s"metadata":{"labels":{%q:%s},"annotations":{%[2]q:%[3]s},"finalizers":%s}}`, spec,
		state.RivalKey, label, list)
}

// foreignField is the field of an object's spec that another client may set: it
// has the server's default or none, and the program has never sent it; "" for
// none.
func (r *run) foreignField(o *unstructured.Unstructured, resource string) string {
	f := foreign[resource]
	have, found, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", f.field)
	if f.field == "" || r.judge.claimed[o.GetUID()] || found && fmt.Sprint(have) != f.usual {
		return ""
	}
	return f.field
}

// others performs a step as another client, beside the workload.
func (r *run) others(ctx context.Context, s Step) {
	r.line("others    " + s.Name)
	r.progress = time.Now()
	if err := s.Do(ctx, r.world); err != nil && !apierrors.IsNotFound(err) {
		r.line(fmt.Sprint("  ", err))
	}
}

// object is the live object of an output, or nil.
func (r *run) object(o *output) *unstructured.Unstructured {
	all, _ := r.world.Objects(o.resource)
	for _, have := range all {
		if state.KeyOf(have) == o.key {
			return have
		}
	}
	return nil
}
