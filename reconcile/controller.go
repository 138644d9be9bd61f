package reconcile

import (
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// Controller calls a Reconciler for every object of an informer, and again
// whenever the object changes or a [Trigger] returns its key.
//
// Make one with [New]. It runs once. Its methods may be called at any time,
// from any goroutine. Methods that return types of package inspect never wait
// for a reconcile. A Controller that is never run holds no goroutines or
// handlers.
type Controller struct {
	core
	// reconcile calls the reconciler with the cached object.
	reconcile func(*reconcileContext) (Result, error)
	// attachPrimary makes the informer of the controller's own objects
	// enqueue the key of each object that changes, until detach is called.
	attachPrimary func() (detach func())
	orphans       *orphans     // nil without Options.Known
	slots         *shardRunner // nil without Options.Shards
}

// Name returns the controller's name, which its queue and its logger share.
func (c *Controller) Name() string { return c.name }

// QueueStats returns the counts of the controller's queue since it was made,
// and the number of keys that it contains now. With Options.Leader, a standby
// replica also queues the key of every change, in case it becomes the leader.
// The numbers of keys do not include these keys, because the leader reconciles
// them. Counts of events, such as Added, include them.
func (c *Controller) QueueStats() queue.Stats {
	stats := c.queue.Stats()
	if c.Phase() == inspect.Standby && c.slots == nil {
		stats.Delayed, stats.BackingOff, stats.Failing = 0, 0, 0
		for l := range stats.Lanes {
			stats.Lanes[l].Depth, stats.Lanes[l].Oldest = 0, 0
		}
	}
	return stats
}

// Enqueue reconciles keys soon, whether or not they have an object. It is meant
// for tests, command lines and debug pages. It never blocks; see [External] for
// sources of keys. Keys added before Run wait for Run. Keys added after Run has
// ended are ignored. With Options.Shards, keys of shards that this replica does
// not have are dropped.
//
// A key that is already waiting is reconciled once, and one that is being
// reconciled is reconciled again afterwards. The back-off of a failed key ends.
func (c *Controller) Enqueue(keys ...Key) {
	for _, key := range keys {
		c.enqueue(key, "enqueue")
	}
}

// Sweep returns the [names.Sweep] that compares the names of Options.Known with
// the cache, or nil without Options.Known. Its Ready method returns an error if
// sweeps fail, Stats returns what they have found, and Confirm lets one sweep
// exceed the safety limit. Do not call its Run method, because the controller
// does.
func (c *Controller) Sweep() *names.Sweep {
	if c.orphans == nil {
		return nil
	}
	return c.orphans.sweep
}
