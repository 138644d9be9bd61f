package reconcile

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/queue"
)

// conflictDelay is how long a key rests after a conflict if no event comes
// first. The cache was behind, and usually catches up within milliseconds.
const conflictDelay = 50 * time.Millisecond

// work runs the workers until leading has ended and every turn with it. If it
// ended because ctx did, turns in flight have the grace period to finish; if
// not, the leadership was lost, and another replica may be at work already.
func (c *Controller) work(ctx, leading context.Context) {
	c.enter(Working)
	turns, abandon := context.WithCancelCause(context.WithoutCancel(leading))
	defer abandon(nil)
	var workers sync.WaitGroup
	for range c.options.Workers {
		workers.Go(func() {
			for {
				item, err := c.queue.Get(leading)
				if err != nil {
					return
				}
				c.turn(turns, item)
			}
		})
	}
	<-leading.Done()
	c.enter(Stopping)
	if ctx.Err() == nil {
		abandon(context.Cause(leading))
	}
	grace := time.AfterFunc(c.options.Grace, func() {
		logr.FromContextOrDiscard(ctx).Info("grace period is over, cancelling turns", "grace", c.options.Grace)
		abandon(ErrStopping)
	})
	defer grace.Stop()
	workers.Wait()
}

// turn reconciles one key once and ends its item.
func (c *Controller) turn(ctx context.Context, item queue.Item[Key]) {
	began := time.Now()
	t := &turnContext{parent: ctx, control: c, item: item, began: began, deadline: began.Add(c.options.TurnTimeout)}
	c.stats.active.Add(1)
	defer c.stats.active.Add(-1)
	if c.fresh.overdue(item.Key()) {
		t.overdue = true
		c.stats.overdue.Add(1)
		logr.FromContextOrDiscard(t).Info("running on a stale cache: it has not seen this key's own writes in time",
			"deadline", c.options.FreshnessDeadline)
	}
	result, err := c.guarded(t)
	writes := t.end()
	t.note(writes, err)
	if c.fresh.hold(item, writes, c.slowDown(t, writes)) {
		c.stats.heldBack.Add(1)
	}
	c.outputs.add(writes)
	c.failures.note(item.Key(), err)
	outcome := c.settle(t, result, err)
	c.stats.took(outcome, time.Since(began))
	t.conclude(outcome, err)
}

// slowDown returns how long the key must rest because it is getting nowhere,
// and says so when that begins and at every doubling.
func (c *Controller) slowDown(t *turnContext, writes []write) time.Duration {
	loop, found := c.loops.observe(t.item, writes)
	if !found {
		return 0
	}
	c.stats.hotLoops.Add(1)
	if n := loop.repeats - patience; n&(n-1) == 0 {
		logr.FromContextOrDiscard(t).Info("hot loop: the key is slowed down", "object", loop.String(), "delay", loop.delay())
		if object, ok := loop.object.(runtime.Object); ok && c.options.Events != nil {
			c.options.Events.Eventf(object, nil, corev1.EventTypeWarning, "HotLoop", "Reconcile",
				"Controller %s is slowed down: %s", c.name, loop)
		}
	}
	return loop.delay()
}

// guarded turns a panic into an error of the key.
func (c *Controller) guarded(t *turnContext) (result Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			c.stats.panics.Add(1)
			result, err = Result{}, fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return c.reconcile(t)
}

// settle ends the item by what the turn came to.
func (c *Controller) settle(t *turnContext, result Result, err error) Outcome {
	switch {
	case err != nil:
		return c.settleError(t, result, err)
	case result.after > 0:
		t.item.After(result.after)
		return Requeued
	default:
		t.item.Done()
		return Succeeded
	}
}

func (c *Controller) settleError(t *turnContext, result Result, err error) Outcome {
	logger := logr.FromContextOrDiscard(t)
	seconds, asked := apierrors.SuggestsClientDelay(err)
	switch {
	case apierrors.IsConflict(err):
		logger.V(1).Info("conflict: looking again", "error", err.Error())
		t.item.After(conflictDelay)
		return Conflicted
	case isTerminal(err):
		logger.Error(err, "turn has failed; it is not retried until something changes")
		t.item.Done()
		return GaveUp
	case errors.Is(err, context.Canceled) && t.parent.Err() != nil:
		logger.Info("turn was cut off", "cause", context.Cause(t.parent).Error(), "error", err.Error())
		t.item.Retry()
		return Failed
	}
	logger.Error(err, "turn has failed; it will be retried")
	switch {
	case result.after > 0:
		t.item.RetryAfter(result.after)
	case asked:
		t.item.RetryAfter(max(time.Duration(seconds)*time.Second, 1))
	default:
		t.item.Retry()
	}
	return Failed
}
