package reconcile

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/ownwrites"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// turnContext is the context of one turn: its deadline, its logger and the
// recorder of its writes in a single allocation. Timer and logger are made only
// when asked for.
type turnContext struct {
	parent   context.Context
	control  *Controller
	item     queue.Item[Key]
	deadline time.Time
	began    time.Time
	overdue  bool   // the caches have not seen the key's last writes
	number   uint64 // in the key's history, 0 if it is not remembered
	after    func(inspect.Attempt, error)
	reported *inspect.Attempt // for after

	mu       sync.Mutex // guards what follows
	inner    context.Context
	cancel   context.CancelFunc
	ended    bool
	writes   []write
	requests []*request // that have not been answered
}

func (t *turnContext) Deadline() (time.Time, bool) {
	if d, ok := t.parent.Deadline(); ok && d.Before(t.deadline) {
		return d, true
	}
	return t.deadline, true
}

func (t *turnContext) Done() <-chan struct{} {
	return t.timed().Done()
}

func (t *turnContext) Err() error {
	return t.timed().Err()
}

// timed is the context that carries the deadline, made at its first use.
func (t *turnContext) timed() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inner == nil {
		t.inner, t.cancel = context.WithDeadlineCause(t.parent, t.deadline, ErrReconcileTimeout)
		if t.ended {
			t.cancel()
		}
	}
	return t.inner
}

// Value answers for the recorder and adds the turn's names to the logger; all
// else is the parent's, or the timed context's once there is one, so that
// contexts made from this one are cancelled without a goroutine each.
func (t *turnContext) Value(key any) any {
	if _, ok := key.(ownwrites.Key); ok {
		return t
	}
	t.mu.Lock()
	from := t.inner
	t.mu.Unlock()
	if from == nil {
		from = t.parent
	}
	value := from.Value(key)
	if logger, ok := value.(logr.Logger); ok && logger.GetSink() != nil {
		return t.logger(logger)
	}
	return value
}

func (t *turnContext) logger(base logr.Logger) logr.Logger {
	key := t.item.Key()
	return base.WithValues("controller", t.control.name, "kind", t.control.kind,
		"namespace", key.Namespace, "name", key.Name, "attempt", t.item.Attempt(), "causes", describe(t.item.Causes()))
}

// around calls Options.Around, if there is one, and returns the context of the
// reconcile. It runs under the guard of the reconcile itself.
func (t *turnContext) around() context.Context {
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

// note remembers the reconcile, before its item ends: then the key may be
// dispatched again, and the causes are forgotten.
func (t *turnContext) note(writes []write, err error) {
	took := time.Since(t.began)
	t.number = t.control.histories.add(t, took, writes, err)
	if t.after != nil {
		a := t.attempt(took, writes, err)
		a.Causes = t.item.Causes()
		t.reported = &a
	}
}

// conclude says how the reconcile ended. A panic of Options.Around is logged and
// no more: the key has been reconciled.
func (t *turnContext) conclude(o inspect.Outcome, err error, seat *seat) {
	t.control.histories.ended(t.item.Key(), t.number, o)
	if t.reported == nil {
		return
	}
	seat.take(&hookCall{t, time.Now().Add(t.control.options.ReconcileTimeout)})
	defer func() {
		seat.leave()
		if r := recover(); r != nil {
			klog.FromContext(t).Error(fmt.Errorf("panic: %v", r), "Options.Around panicked after a reconcile")
		}
	}()
	t.reported.Outcome = o
	t.after(*t.reported, err)
}
