package reconcile

import (
	"slices"
	"time"

	"github.com/homeostat/homeostat/internal/guard"
	"github.com/homeostat/homeostat/internal/parts"
	"github.com/homeostat/homeostat/internal/redact"
	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// Status returns what the controller is doing, with the status of at most the
// given number of keys. The keys in the queue come first, in the order of the
// queue's Entries, followed by the keys that wait for a change after a
// [Terminal] error, latest first. It never waits for a reconcile.
func (c *Controller) Status(keys int) inspect.Status {
	s := inspect.Status{
		Name: c.name, Kind: c.primary.Kind(), Phase: c.Phase(),
		Elects:   c.elects() != nil,
		Optional: c.options.Optional,
		Triggers: []inspect.TriggerStatus{triggerStatus(c.primary, "primary")},
	}
	c.outputs.Range(func(kind, _ any) bool {
		s.Outputs = append(s.Outputs, kind.(string))
		return true
	})
	slices.Sort(s.Outputs)
	if err := guard.Call(func() { c.describeElection(&s) }); err != nil {
		s.LeaderName = "not known: asking the program's Leader or Shards: " + redact.Error(err)
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

// describeElection adds what the Leader or the Shards report about themselves.
// A program may have its own implementation of either, which may report less.
func (c *Controller) describeElection(s *inspect.Status) {
	if leader, ok := c.elects().(inspect.Elector); ok {
		s.LeaderName = leader.String()
	}
	if lease, ok := c.elects().(inspect.LeaseNamer); ok {
		s.LeaseName = lease.LeaseName()
	}
	if r, ok := c.options.Shards.(inspect.Slots); ok {
		s.Slots, s.Imbalance = r.Owners()
	} else if own := partsOf(c.options.Shards); own != nil {
		var owners []slots.Status
		owners, s.Imbalance = own.Owners()
		for _, owner := range owners {
			s.Slots = append(s.Slots, inspect.SlotStatus(owner))
		}
	}
}

// triggerStatus describes the trigger of an informer.
func triggerStatus(s source, triggerType string) inspect.TriggerStatus {
	return inspect.TriggerStatus{Informer: s.Name(), Kind: s.Kind(), Type: triggerType, Identity: s.identity()}
}

// Phase returns the current stage of the controller's life. It is
// inspect.Created before Run, and inspect.Stopped once everything that Run
// started has ended.
func (c *Controller) Phase() inspect.Phase {
	if phase := c.phase.Load(); phase != nil {
		return *phase
	}
	return inspect.Created
}

// LeaderReady returns nil if this replica leads or stands by as it should, and
// otherwise an error, for example if the objects of new slots have not been
// cached within a minute. It returns nil if the Leader or the Shards do not
// implement inspect.Elector, and while an optional controller waits, because
// such a controller has not joined the election.
func (c *Controller) LeaderReady() error {
	e, ok := c.elects().(inspect.Elector)
	if !ok || c.waits() {
		return nil
	}
	if err := e.Ready(); err != nil || c.slots == nil || c.slots.caches == nil {
		return err
	}
	return c.slots.caches.overdue()
}

// Healthy returns nil, or an error that says why only a restart of the process
// helps:
//
//   - The Healthy method of the Leader or of the Shards returns an error. For
//     example, with a leader.Elector work still runs long after its leadership
//     ended, or a request for the Lease does not return.
//   - For a minute, all workers have been held by calls that ignore their
//     context. A worker that is held is replaced by another worker, as long as
//     there are fewer than twice as many as Options.Workers.
//   - For five minutes, the API server has not accepted the credentials of an
//     informer, although it did before. A process that starts with such
//     credentials is not restarted again: it never becomes ready. The
//     credentials of an optional controller do not count, because the other
//     controllers need no restart.
//
// It is meant for a liveness probe, as [Controller.LeaderReady] is for a
// readiness probe.
func (c *Controller) Healthy() error {
	if e, ok := c.elects().(inspect.Elector); ok {
		if err := e.Healthy(); err != nil {
			return err
		}
	}
	if err := c.crew.healthy(); err != nil && c.Phase() == inspect.Working {
		return err
	}
	if c.options.Optional {
		return nil
	}
	for _, s := range c.sources {
		if err := parts.CredentialsEnded(s.Name(), s.Status().UnauthorizedSince); err != nil {
			return err
		}
	}
	return nil
}

// Informers returns the state of every informer of the controller, the primary
// one first. It never waits for an informer. For several controllers, see
// inspect.Informers.
func (c *Controller) Informers() []inspect.InformerStatus {
	informers := make([]inspect.InformerStatus, 0, len(c.sources))
	for _, s := range c.sources {
		status := inspect.InformerStatus{
			Status: s.Status(), Controllers: []string{c.name}, Optional: c.options.Optional, Resource: s.Resource(),
			Identity: s.identity(),
		}
		status.Reason, status.LastError = redact.Text(status.Reason), redact.Text(status.LastError)
		informers = append(informers, status)
	}
	return informers
}

// References returns the objects to which the object of key refers, and whether
// they exist, as far as this replica knows. See the function [References].
func (c *Controller) References(key Key) (references []inspect.Reference) {
	r := c.references
	if r == nil {
		return nil
	}
	r.mu.Lock()
	owner := r.owners[key]
	var keys [][]Key
	if owner != nil {
		keys = slices.Clone(owner.keys)
	}
	r.mu.Unlock()
	for n := range keys {
		f := &r.functions[n]
		for _, target := range keys[n] {
			state := "does not exist"
			switch known, err := f.cache.State(target); {
			case err != nil:
				state = redact.Error(err)
			case !known:
				state = "not known yet"
			case c.sources[f.source].cached(target) != nil:
				state = "exists"
			}
			references = append(references, inspect.Reference{Kind: f.kind(), Key: target, State: state})
		}
	}
	return references
}

// Stats returns the counts of the controller since it was made, and its present
// numbers, such as the number of reconciles that are running.
func (c *Controller) Stats() inspect.Stats {
	s := inspect.Stats{
		Panics:       c.stats.panics.Load(),
		Stuck:        len(c.watchdog.stuck()),
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
	total := uint64(0)
	for i, bound := range durationBuckets {
		total += c.stats.durations[i].Load()
		s.Durations[bound] = total
	}
	return s
}

// History returns the last reconciles of key, at most 20 of them, oldest first.
// It returns nil if the key is not recorded. The caller owns the slice; its
// Causes and Writes are shared; do not modify them.
//
// A controller records 500 keys. A reconcile that wrote, failed or was overdue
// (see [inspect.Attempt]), and a call of History, make room for a new key by
// replacing the history that was used longest ago. Other reconciles replace no
// history, and their causes are recorded only during the 10 minutes after a
// call of History for their key.
func (c *Controller) History(key Key) []inspect.Attempt {
	h := &c.histories
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.get(key, true)
	k.watched = time.Now().Add(historyWatch)
	first := int(k.number % uint64(max(len(k.attempts), 1))) //nolint:gosec // less than 20
	if len(k.attempts) < historyLength {
		first = 0
	}
	return slices.Concat(k.attempts[first:], k.attempts[:first])
}
