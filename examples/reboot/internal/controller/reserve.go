package controller

import (
	"context"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
)

// reserve assigns the free slots of a group, and updates the group's queue. It
// decides from live reads: it first reads the ledgers of all groups, and then
// all nodes. If the group needs its first slot and has no finalizer yet,
// reserve only adds the finalizer, and the event of that write causes the next
// reconcile. If there is nothing to assign, it reports the group's state. The
// cache may not show the reason for that: for example, the gate has just
// closed, or a group cannot be decoded. No event follows when such a reason
// ends. So reserve returns the time after which the group must be reconciled
// again, or 0.
func (c *Controller) reserve(ctx context.Context, group string) (time.Duration, error) {
	ledger, all, err := c.ledger(ctx, group)
	if err != nil {
		return 0, err
	}
	if ledger == nil || ledger.DeletionTimestamp != nil {
		return 0, nil
	}
	nodes, err := c.liveNodes(ctx)
	if err != nil {
		return 0, err
	}
	v := c.newView(ledger, all, nodes)
	r := c.free(ctx, &v)
	if len(r.Slots) == 0 && slices.Equal(r.Queue, ledger.Status.Queue) {
		stuck, recheck := c.stuck(v)
		return rules.Sooner(reread(all), rules.Sooner(r.After, recheck)), c.report(ctx, v, stuck)
	}
	if len(r.Slots) > 0 && !slices.Contains(ledger.Finalizers, finalizer) {
		return 0, c.guard(ctx, ledger) // The event of this write causes the next reconcile, which reads the ledger again.
	}
	return 0, c.assigned(ctx, v, r)
}

// assigned writes the new slots and the new queue to the ledger of a group.
func (c *Controller) assigned(ctx context.Context, v view, r rules.Reservation) error {
	ledger := v.group
	stuck, _ := c.stuck(v)
	next := ledger.Status.DeepCopy()
	next.Slots, next.Queue = append(next.Slots, r.Slots...), r.Queue
	c.describe(v, stuck, next)
	if err := c.patchStatus(ctx, ledger, func(s *api.RebootGroupStatus) { *s = *next }); err != nil {
		return err
	}
	c.announce(v, stuck, next)
	logger := logr.FromContextOrDiscard(ctx)
	for _, slot := range r.Slots {
		logger.Info("reserved a slot", "node", slot.Node, "request", slot.Request, "epoch", slot.Epoch)
	}
	c.recorder.requested(v, r.Joined)
	if r.Full && v.terms().Limit > 0 {
		c.recorder.full(ledger, v.limit)
	}
	return nil
}

// free returns the slots that can be reserved now, and the group's next queue.
// It asks the gate only if there is a slot to add. If the gate is closed, free
// returns no slots, and stores the gate's reason in v.
func (c *Controller) free(ctx context.Context, v *view) rules.Reservation {
	r := rules.Reserve(&v.group.Status, v.terms(), v.members)
	if len(r.Slots) == 0 || c.options.Gate == nil {
		return r
	}
	if v.blocked = c.options.Gate.Blocked(ctx); v.blocked == "" {
		return r
	}
	r = rules.Reserve(&v.group.Status, v.terms(), v.members)
	r.After = rules.Sooner(r.After, c.options.GatePeriod)
	return r
}
