package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/guard"
	"github.com/homeostat/homeostat/internal/terminal"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// reconcileOnce reconciles one key and ends its item, even if the reconciler
// ends the goroutine (runtime.Goexit). If the key must wait for its namespace,
// reconcileOnce parks it instead. If too many lingering keys are being
// reconciled, it sets a lingering key aside. ctx is the parent of the
// reconciler's context.
func (c *Controller) reconcileOnce(ctx context.Context, item queue.Item[Key], w *worker) {
	c.external.dispatched(item.Key())
	if c.parking.holdsBack(item.Key().Namespace, c.sources) {
		if !c.exists(item.Key()) {
			c.slots.noteDeletion(item.Key()) // its slot may move to another replica before the namespace is listed
		}
		c.park(item)
		for _, next := range c.lingering.withdraw(item.Key(), c.lingerers()) {
			c.queue.Release(next)
		}
		return
	}
	setAside := func() { c.setAside(item) }
	if !c.lingering.admit(item.Key(), item.Causes, setAside, c.lingerers(), c.options.ReconcileTimeout+returnTimeout) {
		return
	}
	began := time.Now()
	t := &reconcileContext{callContext: beginCall(ctx, c.options.ReconcileTimeout), item: item, began: began}
	t.control = &c.core
	c.loops.begin(item.Key(), &t.arrivals)
	c.stats.active.Add(1)
	if c.fresh.overdue(item.Key()) {
		t.overdue = true
		c.stats.overdue.Add(1)
		klog.FromContext(t).Info("caches have not seen this key's own writes in time, reconciling",
			"deadline", c.options.FreshnessDeadline)
	}
	w.begin(t)
	v := verdict{outcome: inspect.Failed, err: guard.ErrGoexit}
	defer func() {
		if v.err == guard.ErrGoexit { //nolint:errorlint // a reconciler may have wrapped another error
			c.stats.panics.Add(1)
		}
		w.end()
		for _, next := range c.lingering.leave(item.Key(), t.lingers(v.err), item.Causes, c.lingerers()) {
			defer c.queue.Release(next)
		}
		if passesOver(v.err) {
			c.passOver(t, v.err)
			return
		}
		c.finish(t, v, w)
	}()
	v = t.attempt(c.reconcile)
}

// attempt calls the reconciler. It returns a panic as an error, even a panic in
// a method of the returned error.
func (t *reconcileContext) attempt(reconcile func(*reconcileContext) (Result, error)) (v verdict) {
	defer func() {
		if r := recover(); r != nil {
			t.control.stats.panics.Add(1)
			v = verdict{outcome: inspect.Failed, err: guard.Panicked(r)}
		}
	}()
	result, err := reconcile(t)
	if passesOver(err) {
		return verdict{err: err}
	}
	if err == nil && result == (Result{}) {
		return verdict{}
	}
	return t.verdictOf(result, err)
}

// callOf returns a function that calls r with the cached object. If an orphan
// has been replaced, it first calls r without an object. It does not call r if
// the object may exist although the cache does not have it, nor before the
// states of all objects to which it refers are known.
func callOf[T informer.Object](
	cache *informer.Informer[T], r Reconciler[T], o *orphans, references *referrers,
) func(*reconcileContext) (Result, error) {
	r = reportingReads(cache, r, references)
	return func(t *reconcileContext) (Result, error) {
		key := t.item.Key()
		object, ok, err := lookUpWithReferences(t, cache, key, references)
		if err != nil {
			return Result{}, err
		}
		if o.wasReplaced(key) {
			result, err := r.Reconcile(t.callAround(), Request[T]{Key: key})
			if err == nil {
				o.cleanedUp(key)
			}
			return result, err
		}
		result, err := r.Reconcile(t.callAround(), Request[T]{Key: key, object: object, found: ok})
		if mutated := cache.CheckMutations(key); mutated != nil {
			err = errors.Join(err, fmt.Errorf("the reconciler modified the cache instead of a copy: %w", mutated))
		}
		return result, err
	}
}

// finish ends the attempt's item, and holds the key until the caches show the
// attempt's writes.
func (c *Controller) finish(t *reconcileContext, v verdict, w *worker) {
	defer c.stats.active.Add(-1)
	t.end()
	writes := t.close()
	t.remember(writes, v.err)
	v.loop, v.loopUntil = t.observe(writes)
	if c.fresh.hold(t.item, writes) {
		c.stats.heldBack.Add(1)
	}
	for _, w := range writes {
		c.outputs.Store(kindOf(w.object), nil)
	}
	v.writes = writes
	c.slots.note(t.item.Key(), v)
	outcome := t.endItem(v)
	c.stats.count(outcome, time.Since(t.began))
	t.conclude(outcome, v.err, w)
}

// observe returns a description of the hot loops that the key is in, and when
// they end. It logs a loop at the first write that delays the reaction, and
// again at the second, the fourth, the eighth such write in a row, and so on.
func (t *reconcileContext) observe(writes []write) (loops string, loopUntil time.Time) {
	c := t.control
	seen := c.loops.observe(t.item, writes)
	loop := seen.worst
	if loop.delay == 0 {
		return seen.loops, seen.endsAt
	}
	c.stats.hotLoops.Add(1)
	if n := loop.repeats - patience + 1; n&(n-1) == 0 {
		klog.FromContext(t).Error(nil, "hot loop detected, reacting later to changes of the object",
			"object", kindOf(loop.object)+" "+loop.String(), "delay", loop.delay.String())
		if object, ok := loop.object.(runtime.Object); ok {
			c.warn(t, object, "HotLoop", "Reconcile", "Controller %s reacts later to changes of this object: %s", c.name, loop)
		}
	}
	return seen.loops, seen.endsAt
}

// verdictOf returns the verdict on the result and the error of a reconciler. A
// [Terminal] error is not retried, whatever result is returned with it. For
// other errors, the delay of an [After] takes precedence over the delay that
// the server asks for, and both take precedence over the quick repetition after
// a stale conflict.
func (t *reconcileContext) verdictOf(result Result, err error) verdict {
	if err == nil {
		return verdict{outcome: inspect.Requeued, wait: result.delay, repeat: result.repeat}
	}
	err = printable(err)
	v := verdict{outcome: inspect.Failed, err: err, wait: result.delay}
	asked := askedDelay(err)
	switch {
	case terminal.Is(err):
		v.outcome = inspect.GaveUp
	case v.wait > 0:
	case asked > 0:
		v.wait = asked
	default:
		v.stale = isStale(err)
	}
	return v
}

// longestAskedDelay bounds the delay that the server asks for. The API server
// itself asks for shorter delays. But it passes on the details of an admission
// webhook's refusal unchanged, and a webhook may ask for any delay.
const longestAskedDelay = 5 * time.Minute

// askedDelay returns the delay before a retry that the server asks for in err,
// at most longestAskedDelay. It returns zero if err asks for no delay, or for a
// delay of zero. The back-off then applies, because retrying at once would be a
// busy loop.
func askedDelay(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return min(time.Duration(max(seconds, 0))*time.Second, longestAskedDelay)
}

// endItem ends the item as the verdict requires, and logs failures.
func (t *reconcileContext) endItem(v verdict) inspect.Outcome {
	repeats := t.control.failures.note(t.item, v)
	if v.err != nil {
		t.announceRefusal()
	}
	switch {
	case v.repeat, v.stale:
		return t.repeat(v, repeats)
	case v.outcome == inspect.Succeeded:
		t.item.Done()
	case v.outcome == inspect.Requeued:
		t.item.After(v.wait)
	case v.outcome == inspect.GaveUp:
		t.control.failureLog.failed(t, v.err, "reconcile failed, waiting for a change")
		t.item.Done()
	case errors.Is(v.err, context.Canceled) && t.abandoned(): // the controller has cancelled it
		klog.FromContext(t).Info("reconcile was cancelled", "cause", context.Cause(t.parent).Error(), "error", v.err.Error())
		t.item.Retry()
	default:
		t.control.failureLog.failed(t, v.err, "reconcile failed, retrying")
		if v.wait > 0 {
			t.item.RetryAfter(v.wait)
		} else {
			t.item.Retry()
		}
	}
	return v.outcome
}

// announceRefusal sends an Event about the object of the key once its writes
// have been refused for a minute.
func (t *reconcileContext) announceRefusal() {
	c, key := t.control, t.item.Key()
	if text := c.failures.announce(key); text != "" {
		if object, ok := c.primary.cached(key).(runtime.Object); ok {
			c.warn(t, object, "MissingPermission", "Reconcile", "Controller %s: %s", c.name, text)
		}
	}
}
