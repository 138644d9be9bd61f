package reconcile

import (
	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// Status returns what the controller is doing, with at most that many keys. It
// never waits for a turn.
func (c *Controller) Status(keys int) inspect.Status {
	s := inspect.Status{
		Name: c.name, Kind: c.kind, Phase: c.Phase(),
		Elects: c.elects() != nil, Slots: c.slotStatus(), Outputs: c.outputs.list(),
		Triggers: []inspect.TriggerStatus{triggerStatus(c.sources[0], "primary")},
	}
	if leader, ok := c.elects().(inspect.Elector); ok {
		s.LeaderName = leader.String()
	}
	if lease, ok := c.elects().(inspect.LeaseNamer); ok {
		s.LeaseName = lease.LeaseName()
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

func triggerStatus(s source, triggerType string) inspect.TriggerStatus {
	return inspect.TriggerStatus{Informer: s.Name(), Kind: s.Kind(), Type: triggerType, Identity: s.identity()}
}

// Phase returns where the controller is in its life.
func (c *Controller) Phase() inspect.Phase {
	if phase := c.phase.Load(); phase != nil {
		return *phase
	}
	return inspect.Created
}

func (c *Controller) enter(p inspect.Phase) { c.phase.Store(&p) }

// LeaderReady returns nil if this replica leads or stands by as it should, and
// otherwise what is wrong. It is nil if the Leader or the Shards are no
// inspect.Elector.
func (c *Controller) LeaderReady() error {
	if e, ok := c.elects().(inspect.Elector); ok {
		return e.Ready()
	}
	return nil
}

// Healthy returns nil, or why only a restart of the process helps. It is nil if
// the Leader or the Shards are no inspect.Elector.
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

func (c *Controller) slotStatus() []shard.SlotStatus {
	if r, ok := c.options.Shards.(shard.Reporter); ok {
		return r.Status().Slots
	}
	return nil
}
