package reconciletest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// pick takes what comes first on a good day, unless the plan has something else: events before calls, calls before
// actors.
func (r *run) pick(enabled []apisim.Action) (apisim.Action, apisim.Fault, bool) {
	r.letGo()
	calls := slices.ContainsFunc(enabled, func(a apisim.Action) bool { return a.Kind == apisim.Release })
	r.shuffle(enabled)
	for _, a := range enabled {
		if r.apart(a) || r.waits(a) {
			continue
		}
		switch a.Kind {
		case apisim.Bookmark, apisim.Chaos:
			continue
		case apisim.Deliver:
			if r.holds(a) {
				continue
			}
			return a, r.deliveryFault(), true
		case apisim.Commit:
			if calls && r.served < 2 { // late is: after the caller's next call
				continue
			}
			return a, apisim.NoFault, true
		case apisim.Release:
			if r.stops(a) { // it is going: only once all is still again is it known what can happen
				return r.pick(r.sched.Enabled())
			}
			if r.strikes(a) {
				continue
			}
			return a, r.callFault(a), true
		case apisim.Work:
			return a, apisim.NoFault, true
		}
	}
	return apisim.Action{}, apisim.NoFault, false
}

// shuffle orders the actions by chance, unless it is a good day.
func (r *run) shuffle(enabled []apisim.Action) {
	if random := r.chance(); random != nil {
		random.Shuffle(len(enabled), func(i, j int) { enabled[i], enabled[j] = enabled[j], enabled[i] })
	}
}

// letGo ends the holding back of what has been held back for long enough.
func (r *run) letGo() {
	for _, held := range []map[int]time.Time{r.held, r.slow} {
		maps.DeleteFunc(held, func(_ int, since time.Time) bool { return time.Since(since) >= r.o.Lag })
	}
	maps.DeleteFunc(r.tardy, func(_ string, since time.Time) bool { return time.Since(since) >= tardy })
	r.thaw()
}

// waits tells whether the action is of something that is held back.
func (r *run) waits(a apisim.Action) bool {
	switch a.Kind {
	case apisim.Deliver:
		_, held := r.held[a.WatchID()]
		return held || !r.frozen.IsZero()
	case apisim.Release:
		late := a.Call.Resource.GroupResource().String() == r.late && time.Now().Before(r.lateUntil) &&
			(a.Call.Verb == "list" || a.Call.Verb == "watch")
		_, held := r.slow[a.CallID()]
		return held || late
	case apisim.Work:
		return r.lags(a)
	}
	return false
}

// age lets time pass in a program that is busy for ever: its steps take none, and a slow watch or a back-off elsewhere
// would last for ever too.
func (r *run) age() {
	if now := time.Now(); now.After(r.moved) {
		r.moved, r.still = now, 0
	}
	if r.still++; r.still > busySteps {
		r.sched.Wait(busyTime)
	}
}

// holds begins to hold a watch back, if the plan says so.
func (r *run) holds(a apisim.Action) bool {
	d, found := r.p.Find(plan.AtDelivery, r.out.deliveries+1)
	if !found || d.Fault != plan.Hold || r.tail {
		return false
	}
	r.out.deliveries++
	r.held[a.WatchID()] = time.Now()
	r.line("HELD BACK " + plainly(a))
	return true
}

// strikes does what the plan has for a call that is not a fault of it; true: the call is not served now.
func (r *run) strikes(a apisim.Action) bool {
	p := r.replica(a.Call.Client)
	if r.tail || p == nil || state.Ignored(a.Call.Resource.Resource) {
		return false
	}
	at := len(r.out.calls) + 1
	if _, now := r.p.Find(plan.Rivalled, at); now {
		r.rival(a.Call)
	}
	if d, now := r.p.Find(plan.AtCall, at); now && d.Fault == plan.Hold {
		r.done(d)
		r.slow[a.CallID()] = time.Now()
		r.line("HELD BACK " + plainly(a))
		return true
	}
	return r.parts(a, p)
}

// stops tells the replica to stop before its call is served, if the plan says so.
func (r *run) stops(a apisim.Action) bool {
	p := r.replica(a.Call.Client)
	if r.tail || p == nil || p.halted || state.Ignored(a.Call.Resource.Resource) {
		return false
	}
	d, now := r.p.Find(plan.Stopped, len(r.out.calls)+1)
	if !now {
		return false
	}
	r.done(d)
	r.line("STOP      " + p.client + ", before: " + plainly(a))
	p.stop()
	if len(r.replicas) > 1 {
		r.slow[a.CallID()] = time.Now() // long enough for another one to take the Lease, if it is there to be taken
	}
	return true
}

// apart tells whether the network does not reach the replica that the action is of.
func (r *run) apart(a apisim.Action) bool {
	p := r.replica(a.Call.Client)
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

// done takes a deviation out of what is left of the plan.
func (r *run) done(d plan.Deviation) {
	r.p = slices.DeleteFunc(slices.Clone(r.p), func(o plan.Deviation) bool { return o == d })
}

// parts begins a partition at a call, if the plan says so.
func (r *run) parts(a apisim.Action, p *replica) bool {
	if _, now := r.p.Find(plan.Parted, len(r.out.calls)+1); !now || r.parted {
		return false
	}
	r.parted = true
	p.apart = time.Now().Add(partition)
	r.line("APART     " + p.client + ", before: " + plainly(a))
	return true
}

func (r *run) deliveryFault() apisim.Fault {
	d, _ := r.p.Find(plan.AtDelivery, r.out.deliveries+1)
	if r.tail {
		return apisim.NoFault
	}
	return d.Fault
}

func (r *run) callFault(a apisim.Action) apisim.Fault {
	d, _ := r.p.Find(plan.AtCall, len(r.out.calls)+1)
	if r.tail || state.Ignored(a.Call.Resource.Resource) {
		return apisim.NoFault
	}
	return d.Fault
}

// take steps, and keeps the books.
func (r *run) take(a apisim.Action, f apisim.Fault) {
	r.putOff(a, f)
	r.served++
	if f == apisim.Late {
		r.served = 0
	}
	r.current = nil
	text := plainly(a)
	if len(r.replicas) > 1 && ofProgram(a.Call.Client) {
		text += "   of " + a.Call.Client
	}
	if caller := a.Caller(); caller != "" {
		text += "   (" + caller + ")"
	}
	if f != apisim.NoFault {
		text += "   <<< " + strings.ToUpper(f.String())
	}
	if quiet := state.Ignored(a.Call.Resource.Resource); !quiet {
		r.line(text)
	}
	if !r.tail && !state.Ignored(a.Call.Resource.Resource) {
		r.out.decisions++
		switch a.Kind {
		case apisim.Deliver:
			r.out.deliveries++
		case apisim.Release:
			r.out.calls = append(r.out.calls, &call{Call: a.Call})
			r.current = r.out.calls[len(r.out.calls)-1]
		case apisim.Work:
			r.out.acts++
		}
	}
	r.sched.Step(a, f)
	if a.Kind == apisim.Work {
		r.progress = time.Now() // whether it has written or not; it may have taken its time
	}
}

// plainly says what happens in the words of a person.
func plainly(a apisim.Action) string {
	text := a.String()
	_, after, _ := strings.Cut(text, " ")
	after = strings.TrimPrefix(after, fmt.Sprintf("%s#%d ", a.Call.Client, a.Call.Incarnation))
	switch a.Kind {
	case apisim.Deliver:
		f := strings.Fields(after) // watch 3 configmaps ADDED 104 d/a
		if len(f) >= 6 {
			return "deliver   " + f[3] + " " + f[2] + " " + f[5]
		}
		return "deliver   " + after
	case apisim.Commit:
		return "late      " + after
	case apisim.Release:
		return "call      " + after
	}
	return "actor     " + after
}

// called sees every call of the program that the server serves.
func (r *run) called(c apisim.Call) error {
	r.out.rules.Add(c)
	resource := c.Resource.GroupResource().String()
	switch {
	case c.Verb == "watch":
		r.out.watched[resource] = true
	case !c.Write() && c.Subresource == "" && !state.Ignored(c.Resource.Resource):
		r.out.read[resource] = true
	}
	return nil
}

// committed sees every write.
func (r *run) committed(e apisim.Event) {
	resource := e.Resource.GroupResource().String()
	if !state.Ignored(e.Resource.Resource) {
		r.progress = time.Now()
	}
	if r.out.watched[resource] && !state.Ignored(e.Resource.Resource) {
		r.versions = append(r.versions, e.Version)
	}
	r.gone(e, resource)
	r.acted(e, resource)
	switch {
	case ofProgram(e.Call.Client):
		r.lead(e)
		r.wrote(e, resource)
	case !state.Ignored(e.Resource.Resource):
		r.quiet, r.wanted = false, nil // something else is wanted now
	}
	if r.c.Always != nil && r.out.finding == nil {
		if err := r.c.Always(r.world); err != nil {
			r.find(report.Always, fmt.Sprintf("after %s %s %s: %v", strings.ToLower(string(e.Type)), resource,
				e.Key, err))
		}
	}
}

func (r *run) wrote(e apisim.Event, resource string) {
	if r.current != nil {
		r.current.effect = true
	}
	if state.Ignored(e.Resource.Resource) {
		return
	}
	if r.tail || r.quiet {
		r.find(report.Tail, fmt.Sprintf("all was done, and a restart wrote again: %s %s %s", e.Call.Verb, resource,
			e.Key))
		return
	}
	if e.Old != nil && r.wanted[e.Old.GetUID()] && strings.HasPrefix(e.Call.Verb, "delete") {
		r.find(report.Past, fmt.Sprintf("all was done, and a restart with caches of the past deletes %s %s", resource, e.Key))
		return
	}
	r.wipes(e, resource)
	r.out.writes++
	if e.Call.Subresource == "" || e.Call.Subresource == "status" {
		r.out.written[resource] = true
	}
	what := resource + " " + stem(e)
	switch e.Type {
	case watch.Added:
		made := output{resource: resource, key: e.Key.String()}
		made.leaf, made.value = r.leaf(resource, e.New)
		r.created[string(e.New.GetUID())] = made
		r.alive[what]++
		r.out.counts["at once there are "+what] = max(r.out.counts["at once there are "+what], r.alive[what])
	case watch.Deleted:
		r.out.counts["it deletes "+what]++
	}
}

// gone counts down what the program made.
func (r *run) gone(e apisim.Event, resource string) {
	if e.New != nil {
		return
	}
	if _, made := r.created[string(e.Old.GetUID())]; made {
		r.alive[resource+" "+stem(e)]--
	}
}

// lead holds writes of several replicas against the one Lease that there is.
func (r *run) lead(e apisim.Event) {
	if len(r.replicas) < 2 {
		return
	}
	if e.Resource.Resource == "leases" {
		r.leases[e.Key] = true
		if e.New == nil {
			r.leader = ""
			return
		}
		holder, _, _ := unstructured.NestedString(e.New.Object, "spec", "holderIdentity")
		if r.leader = e.Call.Client; holder == "" {
			r.leader = ""
		}
		return
	}
	late := slices.ContainsFunc(r.p, func(d plan.Deviation) bool { return d.Fault == apisim.Late })
	if state.Ignored(e.Resource.Resource) || len(r.leases) != 1 || late || r.leader == e.Call.Client {
		return
	}
	r.find(report.Leader, fmt.Sprintf("%s wrote %s %s, and the Lease is of %q",
		e.Call.Client, e.Resource.GroupResource().String(), e.Key, r.leader))
}

// stem is the object's name, without what was generated.
func stem(e apisim.Event) string {
	o := e.New
	if o == nil {
		o = e.Old
	}
	if prefix := o.GetGenerateName(); prefix != "" {
		return e.Key.Namespace + "/" + prefix + "*"
	}
	return e.Key.String()
}

// outputs are the objects that the program made and that are there.
func (r *run) outputs() []output {
	var all []output
	for _, res := range r.sim.Resources() {
		for _, o := range r.sim.Objects(res.GVR()) {
			if made, ok := r.created[string(o.GetUID())]; ok {
				if o.GetNamespace() == "" {
					made.key = o.GetName()
				}
				all = append(all, made)
			}
		}
	}
	return all
}
