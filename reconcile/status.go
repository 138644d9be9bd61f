package reconcile

import (
	"sync/atomic"
	"time"

	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// Status returns what the controller is doing, with the status of at most the given
// number of keys, none if that is zero or less: first those of the queue, in the
// order of its Entries, and then those that wait for a change after a [Terminal]
// error, the latest first. It never waits for a reconcile.
func (c *Controller) Status(keys int) inspect.Status {
	s := inspect.Status{
		Name: c.name, Kind: c.primary.kind, Phase: c.Phase(),
		Elects: c.elects() != nil, Outputs: c.outputs.list(),
		Triggers: []inspect.TriggerStatus{triggerStatus(c.sources[0], "primary")},
	}
	if leader, ok := c.elects().(inspect.Elector); ok {
		s.LeaderName = leader.String()
	}
	if lease, ok := c.elects().(inspect.LeaseNamer); ok {
		s.LeaseName = lease.LeaseName()
	}
	if r, ok := c.options.Shards.(shard.Reporter); ok {
		s.Slots = r.Status().Slots
	}
	for _, t := range c.options.Triggers {
		if e, ok := t.(external); ok {
			s.Triggers = append(s.Triggers, inspect.TriggerStatus{Informer: e.name, Type: e.triggerType()})
			continue
		}
		s.Triggers = append(s.Triggers, triggerStatus(t.source(), t.triggerType()))
	}
	if keys > 0 {
		s.Keys = c.failures.join(c.queue.Entries(keys), keys)
	}
	return s
}

// triggerStatus describes the trigger of an informer.
func triggerStatus(s source, triggerType string) inspect.TriggerStatus {
	return inspect.TriggerStatus{Informer: s.Name(), Kind: s.Kind(), Type: triggerType, Identity: s.identity()}
}

// Phase returns the current stage of the controller's life: inspect.Created before
// Run, and inspect.Stopped once all that Run has started has ended.
func (c *Controller) Phase() inspect.Phase {
	if phase := c.phase.Load(); phase != nil {
		return *phase
	}
	return inspect.Created
}

// enter changes the phase.
func (c *Controller) enter(p inspect.Phase) { c.phase.Store(&p) }

// LeaderReady returns nil if this replica leads or stands by as it should, and
// otherwise what is wrong: also that the objects of new slots have not been cached for a
// minute. It is nil if the Leader or the Shards are no inspect.Elector.
func (c *Controller) LeaderReady() error {
	e, ok := c.elects().(inspect.Elector)
	if !ok {
		return nil
	}
	if err := e.Ready(); err != nil || c.slots == nil || c.slots.caches == nil {
		return err
	}
	return c.slots.caches.overdue()
}

// Healthy returns nil, or why only a restart of the process helps: an answer for a
// liveness probe, as [Controller.LeaderReady] is one for readiness. It is nil if the
// Leader or the Shards are no inspect.Elector.
func (c *Controller) Healthy() error {
	if e, ok := c.elects().(inspect.Elector); ok {
		return e.Healthy()
	}
	return nil
}

// Informers returns the state of every informer of the controller, the primary
// one first. It never waits for an informer. See inspect.Informers for those of
// several controllers.
func (c *Controller) Informers() []inspect.InformerStatus {
	all := make([]inspect.InformerStatus, 0, len(c.sources))
	for _, s := range c.sources {
		status := inspect.InformerStatus{Status: s.Status(), Controllers: []string{c.name}, Identity: s.identity()}
		status.Reason, status.LastError = firstLine(status.Reason), firstLine(status.LastError)
		all = append(all, status)
	}
	return all
}

// elects returns the Leader or the Shards, or nil.
func (c *Controller) elects() any {
	if c.options.Shards != nil {
		return c.options.Shards
	}
	if c.options.Leader != nil {
		return c.options.Leader
	}
	return nil
}

// durationBuckets are the upper bounds of the histogram of durations, in seconds.
var durationBuckets = [...]float64{
	0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120,
}

// records are what a controller remembers for people and metrics.
type records struct {
	stats     stats
	outputs   outputs
	failures  failures
	histories histories
}

// stats are the counters behind inspect.Stats. They are safe for concurrent use.
type stats struct {
	reconciles        [len(inspect.Stats{}.Reconciles)]atomic.Uint64
	panics, overran   atomic.Uint64
	active            atomic.Int64
	heldBack, overdue atomic.Uint64
	hotLoops          atomic.Uint64
	durations         [len(durationBuckets) + 1]atomic.Uint64
	nanoseconds       atomic.Uint64
}

// count adds a reconcile.
func (s *stats) count(o inspect.Outcome, d time.Duration) {
	s.reconciles[o].Add(1)
	s.nanoseconds.Add(uint64(d))
	i, seconds := 0, d.Seconds()
	for i < len(durationBuckets) && seconds > durationBuckets[i] {
		i++
	}
	s.durations[i].Add(1)
}

// Stats returns counts of the controller since it was made.
func (c *Controller) Stats() inspect.Stats {
	s := inspect.Stats{
		Panics:       c.stats.panics.Load(),
		Stuck:        c.watchdog.stuck(),
		Overran:      c.stats.overran.Load(),
		Active:       int(c.stats.active.Load()),
		Workers:      c.options.Workers,
		HeldBack:     c.stats.heldBack.Load(),
		Overdue:      c.stats.overdue.Load(),
		Failing:      c.failures.count(),
		HotLoops:     c.stats.hotLoops.Load(),
		Durations:    make(map[float64]uint64, len(durationBuckets)),
		DurationsSum: time.Duration(c.stats.nanoseconds.Load()).Seconds(),
	}
	for i := range s.Reconciles {
		s.Reconciles[i] = c.stats.reconciles[i].Load()
	}
	below := uint64(0)
	for i, bound := range durationBuckets {
		below += c.stats.durations[i].Load()
		s.Durations[bound] = below
	}
	return s
}
