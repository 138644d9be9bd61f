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
	busySteps = 30 // at one moment, until time passes
	busyTime  = 500 * time.Millisecond
)

// chooser decides on the next action, and on the fault that strikes it.
//
// Only the goroutine of the run calls it, when every goroutine of the program
// is blocked. The records of the judge's hooks are complete then, and the same
// plan always takes the same path.
type chooser struct {
	*core
	fleet  *fleet
	delays *delays
	judge  *judge

	parted  bool      // the partition of the plan has begun
	due     *replica  // it is to stop, and cannot yet; nil for none
	retries *retries  // of requests that were put off
	moved   time.Time // when time passed last
	still   int       // steps since then
	served  int       // calls since a late one
}

// pick returns the usual next action, unless the plan has something else:
// events before calls, calls before actors. It returns false if nothing can
// happen now.
func (r *chooser) pick(enabled []apisim.Action) (apisim.Action, apisim.Fault, bool) {
	r.delays.release(r.fleet.replicas)
	calls := slices.ContainsFunc(enabled, func(a apisim.Action) bool { return a.Kind == apisim.Release })
	if random := r.chance(); random != nil {
		random.Shuffle(len(enabled), func(i, j int) { enabled[i], enabled[j] = enabled[j], enabled[i] })
	}
	for _, a := range enabled {
		if r.held(a) {
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
			if calls && r.served < 2 { // late means after the caller's next call
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

// held reports whether an action has to wait: for the network, a delay, or a
// late actor.
func (r *chooser) held(a apisim.Action) bool {
	return r.isApart(a) || r.delays.hold(a) || a.Kind == apisim.Work && r.isLate(a)
}

// acts reports whether an actor would act now, or once it is no longer late.
func acts(enabled []apisim.Action) bool {
	return slices.ContainsFunc(enabled, func(a apisim.Action) bool { return a.Kind == apisim.Work })
}

// isLate reports whether the actor is late. If the plan delays it now, isLate
// records that first.
func (r *chooser) isLate(a apisim.Action) bool {
	name := a.String()
	if _, late := r.delays.actors[name]; late {
		return true
	}
	d, now := r.planned(plan.Lagging, r.out.acts+1)
	if !now {
		return false
	}
	r.done(d)
	r.delays.actors[name] = time.Now()
	r.line("HELD BACK " + describe(a))
	return true
}

// age lets time pass in a program that is always busy: its steps take none, and
// delays elsewhere would last forever. So that a run takes no longer than
// needed, it does so only after busySteps at one moment.
func (r *chooser) age() {
	if now := time.Now(); now.After(r.moved) {
		r.moved, r.still = now, 0
	}
	if r.still++; r.still > busySteps {
		r.sched.Wait(busyTime)
	}
}

// holdWatch begins to hold a watch back, if the plan says so.
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

// strike applies the plan's deviations of a call that are not faults of the
// call itself: a rival's write before it, a delay, the start of a partition. It
// reports whether the call is not served now.
func (r *chooser) strike(a apisim.Action) bool {
	p := r.fleet.of(a.Call.Client)
	if r.tail || p == nil || state.Ignored(a.Call.Resource.GroupResource()) {
		return false
	}
	at := len(r.out.calls) + 1
	if _, now := r.planned(plan.Rivalled, at); now {
		r.rival(a.Call)
	}
	for _, kind := range []byte{plan.Barred, plan.Poisoned} {
		if _, now := r.planned(kind, at); now {
			r.judge.lasting.begin(kind, a.Call)
		}
	}
	if d, now := r.planned(plan.AtCall, at); now && d.Fault == plan.Hold {
		r.done(d)
		r.delays.calls[a.CallID()] = time.Now()
		r.line("HELD BACK " + describe(a))
		return true
	}
	if _, now := r.planned(plan.Parted, at); !now || r.parted {
		return false
	}
	r.parted = true
	p.apart = time.Now().Add(partition)
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

// stop tells the replica to stop before its call is served, or its event
// delivered, if the plan says so: with a manager of controller-runtime, not
// before its caches have synced.
func (r *chooser) stop(a apisim.Action) bool {
	p := r.fleet.of(a.Call.Client)
	if r.tail || p == nil || p.halted || state.Ignored(a.Call.Resource.GroupResource()) {
		return false
	}
	var d plan.Deviation
	now := false
	switch a.Kind {
	case apisim.Release:
		d, now = r.planned(plan.Stopped, len(r.out.calls)+1)
	case apisim.Deliver:
		d, now = r.planned(plan.Halted, r.out.deliveries+1)
	}
	if now {
		r.done(d)
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

// isApart reports whether the network does not reach the replica of an action.
func (r *chooser) isApart(a apisim.Action) bool {
	p := r.fleet.of(a.Call.Client)
	if p == nil || p.apart.IsZero() || a.Kind == apisim.Commit {
		return false
	}
	if time.Now().Before(p.apart) {
		return true
	}
	r.line("together  " + p.client)
	p.apart = time.Time{}
	return false
}

// done removes a deviation from the rest of the plan.
func (r *chooser) done(d plan.Deviation) {
	r.plan = slices.DeleteFunc(slices.Clone(r.plan), func(o plan.Deviation) bool { return o == d })
}

// callFault is the fault that the plan has for a call.
func (r *chooser) callFault(a apisim.Action) apisim.Fault {
	if state.Ignored(a.Call.Resource.GroupResource()) {
		return apisim.NoFault
	}
	at := len(r.out.calls) + 1
	if _, now := r.planned(plan.Refused, at); now && r.delays.refused.IsZero() {
		r.delays.refuse()
	}
	if r.delays.refuses() {
		return apisim.Unreachable
	}
	d, _ := r.planned(plan.AtCall, at)
	if (d.Fault == apisim.CrashBefore || d.Fault == apisim.CrashAfter) && stacks.Syncing() {
		return apisim.NoFault // its context cannot end yet
	}
	return d.Fault
}

// take makes an action happen with its fault, and records it in the trace. The
// hooks of the judge run meanwhile.
func (r *chooser) take(a apisim.Action, f apisim.Fault) {
	if !r.tail && !r.old {
		r.retries.see(a, f)
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
		r.progress = time.Now() // with or without a write: it may just have been slow
	}
}

// text is the line of the trace for an action.
func (r *chooser) text(a apisim.Action, f apisim.Fault) string {
	text := describe(a)
	if len(r.fleet.replicas) > 1 && ofProgram(a.Call.Client) {
		text += "   of " + a.Call.Client
	}
	if which := a.Among(); which != "" && ofProgram(a.Call.Client) {
		text += "   (" + which + ")"
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

// count numbers the decisions, deliveries, calls and acts, to which the
// deviations of a plan refer. Those after the plan is over, and calls for
// Events and Leases, have no number.
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
	case apisim.Work:
		r.out.acts++
	}
}
