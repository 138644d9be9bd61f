package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/ownwrites"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// reconcileContext is the context of one reconcile: its deadline, its logger and
// the recorder of its writes in a single allocation. Timer and logger are made at
// their first use, and kept: client-go asks for the logger several times a request.
type reconcileContext struct {
	parent   context.Context
	item     queue.Item[Key]
	deadline time.Time
	began    time.Time
	overdue  bool   // the caches have not seen the key's last writes
	number   uint64 // in the key's history, 0 if it is not remembered
	after    func(inspect.Attempt, error)
	reported *inspect.Attempt // for after

	recorder
	// Guarded by mu.
	inner  context.Context // nil until Done or Err is called
	logged struct{ key, value any }
}

// Deadline returns the end of Options.ReconcileTimeout. The parent has none: it
// outlives the context of Run by the grace period.
func (t *reconcileContext) Deadline() (time.Time, bool) { return t.deadline, true }

func (t *reconcileContext) Done() <-chan struct{} { return t.timed().Done() }
func (t *reconcileContext) Err() error            { return t.timed().Err() }

// timed returns the context that carries the deadline.
func (t *reconcileContext) timed() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inner == nil {
		t.inner, t.cancel = context.WithDeadlineCause(t.parent, t.deadline, ErrReconcileTimeout)
		if t.closed {
			t.cancel()
		}
	}
	return t.inner
}

// Value returns the recorder, and adds the key to the logger; all else is the
// parent's, or the timed context's once there is one, so that contexts made from
// this one are cancelled without a goroutine each.
func (t *reconcileContext) Value(key any) any {
	if _, ok := key.(ownwrites.Key); ok {
		return t
	}
	t.mu.Lock()
	from, logged := t.inner, t.logged
	t.mu.Unlock()
	if logged.key != nil && logged.key == key {
		return logged.value
	}
	if from == nil {
		from = t.parent
	}
	value := from.Value(key)
	logger, ok := value.(logr.Logger)
	if !ok || logger.GetSink() == nil {
		return value
	}
	logged.key, logged.value = key, t.logger(logger)
	t.mu.Lock()
	t.logged = logged
	t.mu.Unlock()
	return logged.value
}

// logger adds the key, the attempt and its causes to base.
func (t *reconcileContext) logger(base logr.Logger) logr.Logger {
	key := t.item.Key()
	return base.WithValues("controller", t.control.name, "kind", t.control.primary.kind,
		"namespace", key.Namespace, "name", key.Name, "attempt", t.item.Attempt(), "causes", describe(t.item.Causes()))
}

// around calls Options.Around, if there is one, and returns the context for the
// reconciler. A panic of Around is one of the reconcile.
func (t *reconcileContext) around() context.Context {
	if t.control.options.Around == nil {
		return t
	}
	ctx, after := t.control.options.Around(t, t.item.Key())
	t.after = after
	if ctx == nil {
		return t
	}
	return ctx
}

// remember adds the attempt to the key's history. Call it before the item ends:
// then the key may be dispatched again, and its causes are forgotten.
func (t *reconcileContext) remember(writes []write, err error) {
	took := time.Since(t.began)
	t.number = t.control.histories.add(t, took, writes, err)
	if t.after != nil {
		a := t.describe(took, writes, err)
		a.Causes = t.item.Causes()
		t.reported = &a
	}
}

// conclude records the outcome and calls what Options.Around returned. A panic
// there is only logged: the key has been reconciled.
func (t *reconcileContext) conclude(o inspect.Outcome, err error, w *worker) {
	t.control.histories.ended(t.item.Key(), t.number, o)
	if t.reported == nil {
		return
	}
	w.begin(&hookCall{t, time.Now().Add(t.control.options.ReconcileTimeout)})
	defer func() {
		w.end()
		if r := recover(); r != nil {
			klog.FromContext(t).Error(fmt.Errorf("panic: %v", r), "Options.Around panicked after a reconcile")
		}
	}()
	t.reported.Outcome = o
	t.after(*t.reported, err)
}
