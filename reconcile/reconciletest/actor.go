package reconciletest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
)

// Actor is something in the cluster that acts by itself when it sees reason to: a kubelet, another controller. It
// writes as the administrator: nothing of it is held against the program. In some of the runs it is late.
//
// The world is at rest when no actor has acted for a while, whether it wrote or not, and none is enabled: one that is
// enabled for ever leaves it no rest.
//
// [Kubelet] and [Deployments] make those that most programs live with.
type Actor struct {
	Name string
	// Enabled tells whether it would act now.
	Enabled func(w *World) bool
	// Do acts: one write, as a rule.
	Do func(w *World)
	// Due is when it will act by the clock; zero: not at all. The world does not count as at rest before. nil: it does
	// not look at the clock.
	Due func(w *World) time.Time
}

// tardy is how much later, in virtual time, an actor acts that is late.
const tardy = time.Minute

// extra makes an actor an action of the scheduler, and puts what it writes into its line of the trace.
func (r *run) extra(a Actor) *apisim.Extra {
	return &apisim.Extra{
		Name: a.Name, Enabled: func() bool { return a.Enabled(r.world) },
		Do: func() {
			r.acting = true
			a.Do(r.world)
			r.acting = false
		},
	}
}

// acted notes what an actor has written.
func (r *run) acted(e apisim.Event, resource string) {
	last := len(r.out.lines) - 1
	if !r.acting || last < 0 {
		return
	}
	what := fmt.Sprintf(": %s %s %s", written(e.Call), resource, e.Key)
	if !strings.HasSuffix(r.out.lines[last], what) { // a Pod that goes is written twice
		r.out.lines[last] += what
	}
}

// written is the verb of a call, and what it is of if that is not the object.
func written(c apisim.Call) string {
	if c.Subresource == "" {
		return c.Verb
	}
	return c.Verb + " " + c.Subresource + " of"
}

// dues are when the actors will act by the clock; now, if their time has come.
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
	for _, since := range r.tardy {
		all = append(all, since.Add(tardy))
	}
	return all
}

// acts tells whether an actor would act now, or does when it is no longer late.
func acts(enabled []apisim.Action) bool {
	return slices.ContainsFunc(enabled, func(a apisim.Action) bool { return a.Kind == apisim.Work })
}

// lags begins to make an actor late, if the plan says so; true: it is late.
func (r *run) lags(a apisim.Action) bool {
	name := a.String()
	if _, late := r.tardy[name]; late {
		return true
	}
	d, now := r.p.Find(plan.Lagging, r.out.acts+1)
	if !now || r.tail {
		return false
	}
	r.done(d)
	r.tardy[name] = time.Now()
	r.line("HELD BACK " + plainly(a))
	return true
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
