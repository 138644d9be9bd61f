package actors_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/backend"
)

// fixture is the world of a case without a program: its actors and the garbage
// collector act, one after the other.
type fixture struct {
	c         *reconciletest.Case
	sim       *apisim.Server
	collector *apisim.Collector
	world     *reconciletest.World
}

// play lets the actors act until they are at rest, and again after each step of
// the workload. look is called at each rest, with the number of steps before
// it. It returns the writes, with the time since the last rest.
func play(t *testing.T, c *reconciletest.Case, look func(step int, w *reconciletest.World)) []string {
	t.Helper()
	var writes []string
	synctest.Test(t, func(t *testing.T) {
		sim, err := apisim.New(&apisim.Options{Lifecycle: true, Seed: 1, Resources: nil})
		if err != nil {
			t.Fatal(err)
		}
		f := &fixture{c: c, sim: sim, collector: sim.Collector(), world: c.Parts().World(backend.Simulated{Server: sim})}
		if err := backend.Begin(backend.Simulated{Server: sim}, c.Objects...); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		sim.OnCommit(func(e apisim.Event) {
			resource := e.Resource.Resource
			if e.Call.Subresource != "" {
				resource += "/" + e.Call.Subresource
			}
			writes = append(writes, fmt.Sprintf("%v %s %s %s", time.Since(began), e.Call.Verb, resource, e.Key))
			if c.Always != nil {
				if err := c.Always(f.world); err != nil {
					t.Errorf("after %s: %v", writes[len(writes)-1], err)
				}
			}
		})
		f.settle(t)
		look(0, f.world)
		for i, step := range c.Workload {
			began = time.Now()
			if err := step.Do(t.Context(), f.world); err != nil {
				t.Fatal(err)
			}
			f.settle(t)
			look(i+1, f.world)
		}
	})
	return writes
}

// settle returns when no actor would act, now or later.
func (f *fixture) settle(t *testing.T) {
	t.Helper()
	for range 10_000 {
		if f.act() {
			continue
		}
		var due time.Time
		for _, a := range f.c.Actors {
			if at := a.Due(f.world); due.IsZero() || !at.IsZero() && at.Before(due) {
				due = at
			}
		}
		if due.IsZero() {
			return
		}
		<-time.After(time.Until(due))
	}
	t.Fatal("the actors never come to rest")
}

// act lets the first act that would; false: none would.
func (f *fixture) act() bool {
	if f.collector.Step() {
		return true
	}
	for _, a := range f.c.Actors {
		if a.Enabled(f.world) {
			a.Do(f.world)
			return true
		}
	}
	return false
}
