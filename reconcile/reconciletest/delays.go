package reconciletest

import (
	"maps"
	"slices"
	"time"

	"github.com/homeostat/homeostat/internal/apisim"
)

// delays are the watches, calls, actors and lists that the plan holds back at
// present, and an outage of the server.
type delays struct {
	*core
	watches   map[int]time.Time    // by the ID of the watch: since when
	calls     map[int]time.Time    // by the ID of the call: since when
	actors    map[string]time.Time // by the action: since when
	frozen    time.Time            // until when the program's caches are stale, without events
	lists     string               // the resource whose lists and watches come late
	listsTill time.Time
	refused   time.Time // until when the server refuses every call; zero: no outage has begun
}

// newDelays holds nothing back.
func newDelays(r *core) *delays {
	return &delays{
		core: r, watches: map[int]time.Time{}, calls: map[int]time.Time{}, actors: map[string]time.Time{},
	}
}

// release ends the delays that have lasted long enough: Options.Lag, and for
// actors a minute.
func (d *delays) release(replicas []*replica) {
	for _, held := range []map[int]time.Time{d.watches, d.calls} {
		maps.DeleteFunc(held, func(_ int, since time.Time) bool { return time.Since(since) >= d.o.Lag })
	}
	maps.DeleteFunc(d.actors, func(_ string, since time.Time) bool { return time.Since(since) >= actorDelay })
	if d.frozen.IsZero() || time.Now().Before(d.frozen) {
		return
	}
	d.frozen = time.Time{}
	d.line("thaw      the caches see what happened since")
	for _, p := range replicas {
		d.sim.Thaw(p.client)
	}
}

// any reports whether something is delayed now.
func (d *delays) any() bool {
	return len(d.watches)+len(d.calls)+len(d.actors) > 0 || !d.frozen.IsZero() || time.Now().Before(d.listsTill) ||
		d.refuses()
}

// refuse begins an outage of the server. It ends early enough for a back-off
// that doubles to be over before the program counts as at rest.
func (d *delays) refuse() {
	d.refused = time.Now().Add(min(outage, d.o.Rest/4))
	d.line("DOWN      the server: every call is refused")
}

// refuses reports whether the server refuses every call now.
func (d *delays) refuses() bool { return !d.tail && time.Now().Before(d.refused) }

// hold reports whether a delivery or a call is delayed.
func (d *delays) hold(a apisim.Action) bool {
	switch a.Kind {
	case apisim.Deliver:
		_, held := d.watches[a.WatchID()]
		return held || !d.frozen.IsZero()
	case apisim.Release:
		late := a.Call.Resource.GroupResource().String() == d.lists && time.Now().Before(d.listsTill) &&
			(a.Call.Verb == "list" || a.Call.Verb == "watch")
		_, held := d.calls[a.CallID()]
		return held || late
	}
	return false
}

// holdLists delays the lists of the n-th of the watched resources.
func (d *delays) holdLists(n int) {
	watched := slices.Sorted(maps.Keys(d.out.uses.watched))
	if n < 1 || n > len(watched) {
		return
	}
	d.lists, d.listsTill = watched[n-1], time.Now().Add(d.o.Lag)
	d.line("HELD BACK lists of " + d.lists)
}

// ends are the times at which watches, calls and lists are released.
func (d *delays) ends() []time.Time {
	all := []time.Time{d.frozen, d.listsTill}
	for _, held := range []map[int]time.Time{d.watches, d.calls} {
		for _, since := range held {
			all = append(all, since.Add(d.o.Lag))
		}
	}
	return all
}

// actorsDue are the times at which late actors are released.
func (d *delays) actorsDue() []time.Time {
	var all []time.Time
	for _, since := range d.actors {
		all = append(all, since.Add(actorDelay))
	}
	return all
}
