package reconcile

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/terminal"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

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

const (
	// firstPause is the pause after the first repetition that is no failure:
	// a conflict of a cache that is behind, or After(0). It doubles.
	firstPause = 50 * time.Millisecond
	// quickRepeats is how many of them in a row are quick and quiet. What is
	// repeated more often backs off as a failure does.
	quickRepeats = 3
)

// A verdict is what one attempt came to. Its error is safe to call.
type verdict struct {
	outcome inspect.Outcome
	err     error
	wait    time.Duration // exactly; 0 means by the back-off, or not at all
	stale   bool          // a conflict that says no more than that the cache is behind
	again   bool          // After(0): the reconciler wants to be called again
	loop    string        // the hot loop that the key is in, if it is in one
}

// attempt calls the reconciler and judges what it came to. A panic becomes an
// error, also of what the error's own methods do.
func (c *Controller) attempt(t *turnContext) (v verdict) {
	defer func() {
		if r := recover(); r != nil {
			c.stats.panics.Add(1)
			v = verdict{outcome: inspect.Failed, err: fmt.Errorf("panic: %v\n%s", r, debug.Stack())}
		}
	}()
	result, err := c.reconcile(t)
	if err == nil && result == (Result{}) {
		return verdict{}
	}
	return judge(t, result, err)
}

// goexit is the verdict on a reconciler that has ended its goroutine.
func (c *Controller) goexit() verdict {
	c.stats.panics.Add(1)
	return verdict{outcome: inspect.Failed, err: errGoexit}
}

var errGoexit = errors.New("runtime.Goexit was called, as require and t.FailNow do in tests: return an error instead")

// judge says what a result and an error come to. [Terminal] and [After] win over
// what they wrap or come with.
func judge(t *turnContext, result Result, err error) verdict {
	if err == nil {
		return verdict{outcome: inspect.Requeued, wait: result.after, again: result.again}
	}
	err = safely(err)
	seconds, asked := apierrors.SuggestsClientDelay(err)
	v := verdict{outcome: inspect.Failed, err: err, wait: result.after}
	switch {
	case terminal.Is(err):
		v.outcome, v.wait = inspect.GaveUp, 0
	case errors.Is(err, context.Canceled) && t.parent.Err() != nil:
		v.wait = 0
	case v.wait > 0:
	case asked:
		v.wait = max(time.Duration(seconds)*time.Second, 1)
	default:
		v.stale = isStale(err)
	}
	return v
}

// isStale reports whether err is nothing but conflicts of a cache that is
// behind. A field that another manager owns stays owned, however often one looks.
func isStale(err error) bool {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case *apierrors.StatusError:
		_, owned := apierrors.StatusCause(e, metav1.CauseTypeFieldManagerConflict)
		return apierrors.IsConflict(e) && !owned
	case interface{ Unwrap() []error }:
		errs := e.Unwrap()
		return len(errs) > 0 && !slices.ContainsFunc(errs, func(one error) bool { return !isStale(one) })
	case interface{ Unwrap() error }:
		return isStale(e.Unwrap())
	}
	return apierrors.ReasonForError(err) == metav1.StatusReasonConflict
}

// safely returns err, or one that says what is wrong with it if its text cannot
// be had: a nil pointer in an error is the usual reason.
func safely(err error) (safe error) {
	defer func() {
		if r := recover(); r != nil {
			safe = fmt.Errorf("the error is a %T whose Error method panics (%v): "+
				"return nil itself where there is no error, not a nil pointer", err, r)
		}
	}()
	_ = err.Error()
	return err
}

// settle ends the item by the verdict, after logging what has to be.
func (c *Controller) settle(t *turnContext, v verdict) inspect.Outcome {
	repeats := c.failures.note(t.item, v)
	switch {
	case v.again, v.stale:
		return c.repeat(t, v, repeats)
	case v.outcome == inspect.Succeeded:
		t.item.Done()
	case v.outcome == inspect.Requeued:
		t.item.After(v.wait)
	case v.outcome == inspect.GaveUp:
		klog.FromContext(t).Error(v.err, "reconcile failed; it is not retried until something changes")
		t.item.Done()
	case t.parent.Err() != nil && errors.Is(v.err, context.Canceled):
		klog.FromContext(t).Info("reconcile was cut off", "cause", context.Cause(t.parent).Error(), "error", v.err.Error())
		t.item.Retry()
	default:
		klog.FromContext(t).Error(v.err, "reconcile failed; it will be retried")
		retry(t, v.wait)
	}
	return v.outcome
}

// repeat ends the item of an attempt that is to be repeated though nothing has
// failed: quickly and quietly at first, and then as a failure.
func (c *Controller) repeat(t *turnContext, v verdict, repeats int) inspect.Outcome {
	logger := klog.FromContext(t)
	if repeats <= quickRepeats {
		logger.V(1).Info("repeating soon", "repeats", repeats, "conflict", v.stale, "reason", v.reason(repeats))
		t.item.RetryAfter(firstPause << (repeats - 1))
		if v.stale {
			return inspect.Conflicted
		}
		return v.outcome
	}
	// Each attempt in the back-off doubles it; attempts that changes lead to do not.
	if t.item.Attempt() > quickRepeats || repeats&(repeats-1) == 0 {
		if v.stale {
			logger.Error(v.err, "conflict stays; it will be retried", "repeats", repeats)
		} else {
			logger.Info("After(0) again and again; the key is slowed down", "repeats", repeats)
		}
	}
	t.item.Retry()
	return v.outcome
}

// reason says in a line why an attempt is repeated.
func (v verdict) reason(repeats int) string {
	if v.err != nil {
		return tellSafely(v.err)
	}
	return fmt.Sprintf("the reconciler asked to be called again at once, %d times in a row", repeats)
}

func retry(t *turnContext, wait time.Duration) {
	if wait > 0 {
		t.item.RetryAfter(wait)
		return
	}
	t.item.Retry()
}
