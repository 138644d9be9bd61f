package reconcile

import (
	"fmt"
	"slices"
	"time"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/queue"
)

// A Phase is where a controller is in its life.
type Phase string

// The phases of a controller, in this order.
const (
	Made     Phase = "made"     // Run has not been called
	Syncing  Phase = "syncing"  // until every informer has its first list
	Standby  Phase = "standby"  // until this replica leads
	Working  Phase = "working"  // turns run
	Stopping Phase = "stopping" // turns in flight may finish
	Stopped  Phase = "stopped"
)

// A Status is what a controller is doing, for people, probes and metrics. It
// holds names, versions and errors, and nothing else of any object.
type Status struct {
	Name  string
	Kind  string // of the objects that are reconciled
	Phase Phase
	// Elects reports whether there is a Leader, or Shards; LeaderName, which replica
	// leads or why none does, if the Leader or the Shards say it (fmt.Stringer).
	Elects     bool
	LeaderName string
	// LeaseName is the name of the Leader's Lease, if it has a method LeaseName() string.
	LeaseName string
	// Slots is who has which slot, by number; nil without Shards.
	Slots []SlotStatus
	// Triggers are what leads to turns, the primary informer first.
	Triggers []TriggerStatus
	// Outputs are the kinds that turns have written.
	Outputs []string
	// Keys are those that are held, delayed or waiting, in the order of
	// queue.Entries; and then those that rest after a failed turn.
	Keys []KeyStatus
}

// A TriggerStatus is an informer and how its objects lead to keys.
type TriggerStatus struct {
	Informer string // its name, or that of an external trigger
	Kind     string // of its objects; empty for an external trigger
	Sort     string // "primary", "owned", "mapped" or "external"

	source source
}

// A KeyStatus is a key, why it is looked at, and what became of its last turn.
type KeyStatus struct {
	queue.Entry[Key]

	// Resting says that the key is not in the queue: its last turn gave up.
	Resting bool
	// Failure is the first line of the error of the key's last turn, and
	// FailedAt when that was; empty after a good turn.
	Failure  string
	FailedAt time.Time
}

// Status returns what the controller is doing, with at most that many keys. It
// never waits for a turn.
func (c *Controller) Status(keys int) Status {
	s := Status{
		Name: c.name, Kind: c.kind, Phase: c.Phase(),
		Elects: c.elects() != nil, Slots: c.slotStatus(), Outputs: c.outputs.list(),
		Triggers: []TriggerStatus{triggerStatus(c.sources[0], "primary")},
	}
	if leader, ok := c.elects().(fmt.Stringer); ok {
		s.LeaderName = leader.String()
	}
	if lease, ok := c.elects().(leaseNamer); ok {
		s.LeaseName = lease.LeaseName()
	}
	for _, t := range c.options.Triggers {
		if e, ok := t.(external); ok {
			s.Triggers = append(s.Triggers, TriggerStatus{Informer: e.name, Sort: e.sort()})
			continue
		}
		s.Triggers = append(s.Triggers, triggerStatus(t.source(), t.sort()))
	}
	if keys > 0 {
		s.Keys = c.failures.join(c.queue.Entries(keys), keys)
	}
	return s
}

// leaseNamer is a Leader that can name its Lease.
type leaseNamer interface{ LeaseName() string }

func triggerStatus(s source, sort string) TriggerStatus {
	return TriggerStatus{Informer: s.Name(), Kind: s.Kind(), Sort: sort, source: s}
}

// Phase returns where the controller is in its life.
func (c *Controller) Phase() Phase {
	if phase := c.phase.Load(); phase != nil {
		return *phase
	}
	return Made
}

func (c *Controller) enter(p Phase) { c.phase.Store(&p) }

// LeaderReady returns nil if this replica leads or stands by as it should, and
// otherwise what the Leader or the Shards say is wrong, if they say anything
// (Ready() error).
func (c *Controller) LeaderReady() error {
	if leader, ok := c.elects().(interface{ Ready() error }); ok {
		return leader.Ready()
	}
	return nil
}

// Healthy returns nil, or why only a restart of the process helps, if the
// Leader or the Shards say so (Healthy() error).
func (c *Controller) Healthy() error {
	if leader, ok := c.elects().(interface{ Healthy() error }); ok {
		return leader.Healthy()
	}
	return nil
}

// An InformerStatus is what an informer is doing, and for whom.
type InformerStatus struct {
	// Status of the informer. Its Name has a number if another one has the same.
	informer.Status

	// Controllers are the names of those that use it.
	Controllers []string

	source source
}

// Feeds reports whether t is a trigger of this informer, whose names may differ.
func (i InformerStatus) Feeds(t TriggerStatus) bool {
	return t.source != nil && i.source.identity() == t.source.identity()
}

// Informers returns the state of every informer of the controllers, each once,
// in the order of their first use. It never waits for an informer.
func Informers(controllers ...*Controller) []InformerStatus {
	var all []InformerStatus
	names := map[string]int{}
	for _, c := range controllers {
		for _, s := range c.sources {
			known := slices.IndexFunc(all, func(i InformerStatus) bool { return i.source.identity() == s.identity() })
			if known >= 0 {
				all[known].Controllers = append(all[known].Controllers, c.name)
				continue
			}
			status := InformerStatus{Status: s.Status(), Controllers: []string{c.name}, source: s}
			status.Reason, status.LastError = firstLine(status.Reason), firstLine(status.LastError)
			if names[status.Name]++; names[status.Name] > 1 {
				status.Name = fmt.Sprintf("%s-%d", status.Name, names[status.Name])
			}
			all = append(all, status)
		}
	}
	return all
}
