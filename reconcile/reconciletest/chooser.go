package reconciletest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/stacks"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

const (
	busySteps = 30 // the number of steps at one moment after which time passes
	busyTime  = 500 * time.Millisecond
)

// chooser decides on the next action, and on the fault of that action.
//
// Only the goroutine of the run calls it, and only while every goroutine of the
// program is blocked. The records of the judge's hooks are complete at that
// time, so the same plan always takes the same path.
type chooser struct {
	*core
	fleet  *fleet
	delays *delays
	judge  *judge

	parted     bool      // whether the partition of the plan has begun
	due        *replica  // the replica that has to stop but cannot stop yet, or nil
	retries    *retries  // finds early retries
	moved      time.Time // when virtual time last advanced
	quietSteps int       // the number of steps since moved
	served     int       // the number of actions that were taken since the last late call
	idle       bool      // whether the run has let time pass since the last action that count numbers
}

// pick returns the next action and its fault. Unless the plan says otherwise,
// events are before calls, and calls before actors. It returns false if no
// action is possible now.
func (r *chooser) pick(enabled []apisim.Action) (apisim.Action, apisim.Fault, bool) {
	r.delays.release(r.fleet.replicas)
	calls := slices.ContainsFunc(enabled, func(a apisim.Action) bool { return a.Kind == apisim.Release })
	if random := r.chance(); random != nil {
		random.Shuffle(len(enabled), func(i, j int) { enabled[i], enabled[j] = enabled[j], enabled[i] })
	}
	for _, a := range enabled {
		if r.mustWait(a) {
			continue
		}
		if r.stop(a) { // the next actions are known once every goroutine is blocked again
			return r.pick(r.sched.Enabled())
		}
		switch a.Kind {
		case apisim.Bookmark, apisim.Chaos:
			continue
		case apisim.Deliver:
			if r.holdWatch(a) {
				continue
			}
			d, _ := r.planned(plan.AtDelivery, r.out.deliveries+1)
			return a, d.Fault, true
		case apisim.Commit:
			if calls && r.served < 2 { // a late call is served after the caller's next call
				continue
			}
			return a, apisim.NoFault, true
		case apisim.Release:
			if r.strike(a) {
				continue
			}
			return a, r.callFault(a), true
		case apisim.Work:
			return a, apisim.NoFault, true
		}
	}
	return apisim.Action{}, apisim.NoFault, false
}

// mustWait reports whether an action has to wait, because of a partition or a
// delay, or because its actor is late.
func (r *chooser) mustWait(a apisim.Action) bool {
	return r.isApart(a) || r.delays.hold(a) || a.Kind == apisim.Work && r.isLate(a)
}

// acts reports whether an actor has something to do, even if it is late.
func acts(enabled []apisim.Action) bool {
	return slices.ContainsFunc(enabled, func(a apisim.Action) bool { return a.Kind == apisim.Work })
}

// isLate reports whether the actor is late. If the plan says that the actor
// becomes late now, isLate records that first.
func (r *chooser) isLate(a apisim.Action) bool {
	name := a.String()
	if _, delayed := r.delays.actors[name]; delayed {
		return true
	}
	d, planned := r.planned(plan.Lagging, r.out.acts+1)
	if !planned {
		return false
	}
	r.remove(d)
	r.delays.actors[name] = time.Now()
	r.line("HELD BACK " + describe(a))
	return true
}

// age lets time pass while the program is always busy. The steps of a program
// take no virtual time, so without age, delays would last forever. age does so
// only after busySteps at one moment, because a run should not take longer than
// needed.
func (r *chooser) age() {
	if now := time.Now(); now.After(r.moved) {
		r.moved, r.quietSteps = now, 0
	}
	if r.quietSteps++; r.quietSteps > busySteps {
		r.sched.Wait(busyTime)
	}
}

// holdWatch begins to hold back a watch at this event, if the plan says so, and
// reports whether it has.
func (r *chooser) holdWatch(a apisim.Action) bool {
	d, found := r.planned(plan.AtDelivery, r.out.deliveries+1)
	if !found || d.Fault != plan.Hold {
		return false
	}
	r.out.deliveries++
	r.delays.watches[a.WatchID()] = time.Now()
	r.line("HELD BACK " + describe(a))
	return true
}

// strike applies deviations of the plan that begin at a call but are not faults
// of the call itself, such as another client's write before it, a delay, or the
// start of a partition. It returns true if the call must not be served now.
func (r *chooser) strike(a apisim.Action) bool {
	p := r.fleet.replicaOf(a.Call.Client)
	if r.tail || p == nil || state.Ignored(a.Call.Resource.GroupResource()) {
		return false
	}
	index := len(r.out.calls) + 1
	if _, now := r.planned(plan.Rivalled, index); now {
		r.rival(a.Call)
	}
	for _, kind := range []byte{plan.Barred, plan.Poisoned} {
		if _, now := r.planned(kind, index); now {
			r.judge.lasting.begin(kind, a.Call)
		}
	}
	if d, now := r.planned(plan.Outage, index); now && r.delays.outageTill.IsZero() {
		r.delays.begin(outages[d.N])
	}
	if r.delays.slows(a) {
		return true
	}
	if d, now := r.planned(plan.AtCall, index); now && d.Fault == plan.Hold {
		r.remove(d)
		r.delays.calls[a.CallID()] = time.Now()
		r.line("HELD BACK " + describe(a))
		return true
	}
	if _, now := r.planned(plan.Parted, index); !now || r.parted {
		return false
	}
	r.parted = true
	p.apartUntil = time.Now().Add(partition)
	r.line("APART     " + p.client + ", before: " + describe(a))
	return true
}

// rival annotates and labels the object of a call that is about to be served.
func (r *chooser) rival(c apisim.Call) {
	key := c.Name
	if c.Namespace != "" {
		key = c.Namespace + "/" + c.Name
	}
	resource := c.Resource.GroupResource().String()
	mark := `{"` + state.RivalKey + `":"yes"}`
	step := Patch(resource, key, `{"metadata":{"annotations":`+mark+`,"labels":`+mark+`}}`)
	if err := step.Do(context.Background(), r.world); err != nil {
		return // there is no such object
	}
	r.line("RIVAL     annotates " + resource + " " + key)
	for _, o := range r.sim.Objects(c.Resource) {
		if o.GetNamespace() == c.Namespace && o.GetName() == c.Name {
			r.judge.rivals[o.GetUID()] = true
		}
	}
}

// stop tells a replica to stop before its call is served or its event is
// delivered, if the plan says so, and reports whether it has. A manager of
// controller-runtime cannot stop before its caches have synced, so stop waits
// for that.
func (r *chooser) stop(a apisim.Action) bool {
	p := r.fleet.replicaOf(a.Call.Client)
	if r.tail || p == nil || p.halted || state.Ignored(a.Call.Resource.GroupResource()) {
		return false
	}
	var d plan.Deviation
	planned := false
	switch a.Kind {
	case apisim.Release:
		d, planned = r.planned(plan.Stopped, len(r.out.calls)+1)
	case apisim.Deliver:
		d, planned = r.planned(plan.Halted, r.out.deliveries+1)
	}
	if planned {
		r.remove(d)
		r.due = p
	}
	if r.due != p || stacks.Syncing() {
		return false
	}
	r.due = nil
	r.line("STOP      " + p.client + ", before: " + describe(a))
	p.stop()
	if len(r.fleet.replicas) > 1 && a.Kind == apisim.Release {
		r.delays.calls[a.CallID()] = time.Now() // long enough for another replica to take the Lease, if it is free
	}
	return true
}

// isApart reports whether a partition separates the replica of an action from
// the server. If the time of the partition is over, isApart ends it. A late
// call was sent before the partition, so it is not held back.
func (r *chooser) isApart(a apisim.Action) bool {
	p := r.fleet.replicaOf(a.Call.Client)
	if p == nil || p.apartUntil.IsZero() || a.Kind == apisim.Commit {
		return false
	}
	if time.Now().Before(p.apartUntil) {
		return true
	}
	r.line("together  " + p.client)
	p.apartUntil = time.Time{}
	return false
}

// remove removes a deviation from the plan, because it has happened.
func (r *chooser) remove(d plan.Deviation) {
	r.plan = slices.DeleteFunc(slices.Clone(r.plan), func(o plan.Deviation) bool { return o == d })
}

// callFault returns the fault that a call gets from the plan or from an outage,
// or NoFault. If the plan has a short outage that begins at this call,
// callFault begins it. It leaves out a crash while a manager of
// controller-runtime cannot stop.
func (r *chooser) callFault(a apisim.Action) apisim.Fault {
	if state.Ignored(a.Call.Resource.GroupResource()) {
		return apisim.NoFault
	}
	index := len(r.out.calls) + 1
	if _, now := r.planned(plan.Refused, index); now && r.delays.outageTill.IsZero() {
		r.delays.refuse()
	}
	if f := r.delays.suffers(a.Call); f != apisim.NoFault {
		return f
	}
	d, _ := r.planned(plan.AtCall, index)
	if (d.Fault == apisim.CrashBefore || d.Fault == apisim.CrashAfter) && stacks.Syncing() {
		return apisim.NoFault // its context cannot end yet
	}
	return d.Fault
}

// take takes an action with its fault, and records it in the trace. The hooks
// of the judge run before it returns.
func (r *chooser) take(a apisim.Action, f apisim.Fault) {
	if !r.tail && !r.old && r.delays.suffers(a.Call) == apisim.NoFault {
		r.retries.record(a, f)
	}
	r.served++
	if f == apisim.Late {
		r.served = 0
	}
	r.judge.current, r.judge.answers.line = nil, -1
	if !state.Ignored(a.Call.Resource.GroupResource()) {
		r.line(r.text(a, f))
		r.count(a)
		if a.Kind == apisim.Release {
			r.judge.answers.line = len(r.out.lines) - 1
		}
	}
	r.sched.Step(a, f)
	if a.Kind == apisim.Work {
		// even a call without a write is progress: it may just have been slow
		r.progress = time.Now()
	}
}

// text returns the trace line for an action.
func (r *chooser) text(a apisim.Action, f apisim.Fault) string {
	text := describe(a)
	if len(r.fleet.replicas) > 1 && isProgram(a.Call.Client) {
		text += "   of " + a.Call.Client
	}
	if distinction := a.Distinction(); distinction != "" && isProgram(a.Call.Client) {
		text += "   (" + distinction + ")"
	}
	if caller := a.Caller(); caller != "" {
		text += "   (" + caller + ")"
	}
	if a.Kind == apisim.Release && f == apisim.NoFault && r.judge.lasting.strikes(a.Call) {
		text += "   <<< REFUSED"
	} else if a.Kind == apisim.Release && f == apisim.NoFault {
		if reply := r.world.answered(a.Call); reply != nil {
			text += fmt.Sprint("   <<< ANSWERED ", reply.Code)
		}
	}
	if f != apisim.NoFault {
		text += "   <<< " + strings.ToUpper(f.String())
	}
	return text
}

// count numbers decisions, deliveries, calls and acts, because the deviations
// of a plan refer to these numbers. Actions before and after the plan, and
// calls for Events and Leases, have no number.
func (r *chooser) count(a apisim.Action) {
	if r.tail || r.old {
		return
	}
	r.out.decisions++
	switch a.Kind {
	case apisim.Deliver:
		if r.out.drift.began {
			r.out.drift.sees(describe(a))
		}
		r.out.deliveries++
		r.out.delivered = append(r.out.delivered, r.out.decisions)
	case apisim.Release:
		r.judge.current = &call{Call: a.Call}
		r.out.calls = append(r.out.calls, r.judge.current)
		if p := r.fleet.replicaOf(a.Call.Client); r.idle && p != nil {
			r.out.waits = append(r.out.waits, pause{r.out.pauses, p.id})
		}
	case apisim.Work:
		r.out.acts++
	}
	r.idle = false
}
