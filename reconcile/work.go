package reconcile

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// work runs the workers until leading has ended and every turn with it. If it
// ended because ctx did, turns in flight have the grace period to finish; if
// not, the leadership was lost, and another replica may be at work already.
func (c *Controller) work(ctx, leading context.Context) {
	c.enter(inspect.Working)
	turns, abandon := context.WithCancelCause(context.WithoutCancel(leading))
	defer abandon(nil)
	var workers sync.WaitGroup
	for range c.options.Workers {
		c.watch.staff(&workers, func(seat *seat) bool {
			item, err := c.queue.Get(leading)
			if err == nil {
				c.turn(turns, item, seat)
			}
			return err == nil
		})
	}
	<-leading.Done()
	c.enter(inspect.Stopping)
	if ctx.Err() == nil {
		abandon(context.Cause(leading))
	}
	grace := time.AfterFunc(c.options.Grace, func() {
		klog.FromContext(ctx).Info("grace period is over, cancelling turns", "grace", c.options.Grace)
		abandon(ErrStopping)
	})
	defer grace.Stop()
	defer c.watch.giveUpOnceStopped(ctx, c.options.Grace+returnWithin)()
	workers.Wait()
}

// turn reconciles one key once and ends its item, also if the reconciler ends
// the goroutine (runtime.Goexit).
func (c *Controller) turn(ctx context.Context, item queue.Item[Key], seat *seat) {
	began := time.Now()
	t := &turnContext{parent: ctx, control: c, item: item, began: began, deadline: began.Add(c.options.ReconcileTimeout)}
	c.stats.active.Add(1)
	c.room.leave(item.Key())
	if c.fresh.overdue(item.Key()) {
		t.overdue = true
		c.stats.overdue.Add(1)
		klog.FromContext(t).Info("running on a stale cache: it has not seen this key's own writes in time",
			"deadline", c.options.FreshnessDeadline)
	}
	seat.take(t)
	var v verdict
	returned := false
	defer func() {
		if !returned {
			v = c.goexit()
		}
		seat.leave()
		c.finish(t, v, began, seat)
	}()
	v = c.attempt(t)
	returned = true
}

// finish ends the item of an attempt by what it came to and what it wrote.
func (c *Controller) finish(t *turnContext, v verdict, began time.Time, seat *seat) {
	defer c.stats.active.Add(-1)
	writes := t.end()
	if len(writes) > 0 {
		c.failures.written.Store(time.Now().UnixNano())
	}
	t.note(writes, v.err)
	slow, loop := c.slowDown(t, writes)
	if v.err == nil && slow > 0 {
		v.loop = loop
	}
	if c.fresh.hold(t.item, writes, slow) {
		c.stats.heldBack.Add(1)
	}
	c.outputs.add(writes)
	outcome := c.settle(t, v)
	c.stats.took(outcome, time.Since(began))
	t.conclude(outcome, v.err, seat)
}

// slowDown returns how long the key must rest because it is getting nowhere,
// and why, and logs it when that begins and at every doubling.
func (c *Controller) slowDown(t *turnContext, writes []write) (time.Duration, string) {
	loop, found := c.loops.observe(t.item, writes)
	if !found {
		return 0, ""
	}
	c.stats.hotLoops.Add(1)
	if n := loop.repeats - patience; n&(n-1) == 0 {
		klog.FromContext(t).Info("hot loop: the key is slowed down", "object", loop.String(), "delay", loop.delay())
		if object, ok := loop.object.(runtime.Object); ok {
			c.warn(t, object, "HotLoop", "Reconcile", "Controller %s is slowed down: %s", c.name, loop)
		}
	}
	return loop.delay(), "hot loop: " + loop.String()
}
