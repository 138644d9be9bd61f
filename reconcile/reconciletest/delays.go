package reconciletest

import (
	"maps"
	"slices"
	"time"

	"github.com/homeostat/homeostat/internal/apisim"
)

// delays has the watches, calls, actors and lists that the plan holds back at
// present, and the outage of the server.
type delays struct {
	*core
	watches    map[int]time.Time    // the time since which a watch is held back, by its ID
	calls      map[int]time.Time    // the time since which a call is held back, by its ID
	actors     map[string]time.Time // the time since which an actor is late, by its action
	frozen     time.Time            // the time until which the program's caches are stale and get no events
	lists      string               // the resource whose lists and watches are delayed
	listsTill  time.Time
	outage     outage // the latest outage
	outageTill time.Time
	healed     time.Time    // the time at which the program must have recovered from a long outage
	slowed     map[int]bool // the calls, by their ID, that an outage has held back
}

// newDelays returns delays that hold back no action.
func newDelays(r *core) *delays {
	return &delays{
		core: r, watches: map[int]time.Time{}, calls: map[int]time.Time{}, actors: map[string]time.Time{},
		slowed: map[int]bool{},
	}
}

// release ends the delays that have lasted long enough. These are Options.Lag
// for watches, calls and stale caches, and actorDelay for actors.
func (d *delays) release(replicas []*replica) {
	for _, held := range []map[int]time.Time{d.watches, d.calls} {
		maps.DeleteFunc(held, func(_ int, start time.Time) bool { return time.Since(start) >= d.o.Lag })
	}
	maps.DeleteFunc(d.actors, func(_ string, start time.Time) bool { return time.Since(start) >= actorDelay })
	if d.frozen.IsZero() || time.Now().Before(d.frozen) {
		return
	}
	d.frozen = time.Time{}
	d.line("thaw      the caches see what happened since")
	for _, p := range replicas {
		d.sim.Thaw(p.client)
	}
}

// isActive reports whether an action is delayed now, or the server has an
// outage.
func (d *delays) isActive() bool {
	return len(d.watches)+len(d.calls)+len(d.actors) > 0 || !d.frozen.IsZero() || time.Now().Before(d.listsTill) ||
		time.Now().Before(d.outageTill)
}

// hold reports whether a delivery or a call is delayed.
func (d *delays) hold(a apisim.Action) bool {
	switch a.Kind {
	case apisim.Deliver:
		_, held := d.watches[a.WatchID()]
		return held || !d.frozen.IsZero()
	case apisim.Release:
		stale := a.Call.Resource.GroupResource().String() == d.lists && time.Now().Before(d.listsTill) &&
			(a.Call.Verb == "list" || a.Call.Verb == "watch")
		_, held := d.calls[a.CallID()]
		return held || stale
	}
	return false
}

// holdLists delays the lists and watches of the n-th watched resource, counted
// from 1 in the order of their names. It does nothing if there are fewer.
func (d *delays) holdLists(n int) {
	watched := slices.Sorted(maps.Keys(d.out.uses.watched))
	if n < 1 || n > len(watched) {
		return
	}
	d.lists, d.listsTill = watched[n-1], time.Now().Add(d.o.Lag)
	d.line("HELD BACK lists of " + d.lists)
}

// ends returns the times at which watches, calls, lists and stale caches are
// released, outages end, and the program must have recovered from a long
// outage.
func (d *delays) ends() []time.Time {
	times := []time.Time{d.frozen, d.listsTill, d.outageTill, d.healed}
	for _, held := range []map[int]time.Time{d.watches, d.calls} {
		for _, start := range held {
			times = append(times, start.Add(d.o.Lag))
		}
	}
	return times
}

// actorsDue returns the times at which late actors are released.
func (d *delays) actorsDue() []time.Time {
	var times []time.Time
	for _, start := range d.actors {
		times = append(times, start.Add(actorDelay))
	}
	return times
}
