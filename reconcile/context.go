package reconcile

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/ownwrites"
	"github.com/homeostat/homeostat/internal/redact"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// callContext is the context of a call of user code. It ends at its deadline
// with the cause ErrReconcileTimeout.
type callContext struct {
	context.Context //nolint:containedctx // a callContext is a context

	parent context.Context //nolint:containedctx // the context of the worker, without the deadline
	cancel context.CancelFunc
}

// beginCall returns the context of a call that starts now.
func beginCall(parent context.Context, timeout time.Duration) callContext {
	ctx, cancel := context.WithTimeoutCause(parent, timeout, ErrReconcileTimeout)
	return callContext{ctx, parent, cancel}
}

// end cancels the context after the call has returned.
func (c *callContext) end() { c.cancel() }

// abandoned reports whether the call must end for a reason other than its
// timeout: the context of the worker has ended.
func (c *callContext) abandoned() bool { return c.parent.Err() != nil }

// reconcileContext is the context of one reconcile. It has the deadline, the
// logger and the recorder of writes. The logger is made when it is first used,
// and kept, because client-go asks for it several times per request.
type reconcileContext struct {
	callContext

	item           queue.Item[Key]
	began          time.Time
	overdue        bool   // whether the caches have not seen the key's last writes
	number         uint64 // the number of the attempt in the key's history; 0 if it is not recorded
	afterReconcile func(inspect.Attempt, error)
	reported       *inspect.Attempt // the attempt that is passed to the function returned by Options.Around

	recorder
	arrivals
	logged struct{ key, value any } // guarded by mu
}

// Value returns the reconcileContext itself, as the recorder of writes, for an
// ownwrites.Key. It adds the reconciled key to the logger. All other values
// come from the callContext.
func (t *reconcileContext) Value(key any) any {
	if _, ok := key.(ownwrites.Key); ok {
		return t
	}
	t.mu.Lock()
	logged := t.logged
	t.mu.Unlock()
	if logged.key != nil && logged.key == key {
		return logged.value
	}
	value := t.callContext.Value(key)
	logger, _ := value.(logr.Logger)
	if logger.GetSink() == nil {
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
	return base.WithValues("controller", t.control.name, "kind", t.control.primary.Kind(),
		"namespace", key.Namespace, "name", key.Name, "attempt", t.item.Attempt(), "causes", describe(t.item.Causes()))
}

// callAround calls Options.Around, if it is set, and returns the context for
// the reconciler. A panic of Around counts as a panic of the reconcile.
func (t *reconcileContext) callAround() context.Context {
	if t.control.options.Around == nil {
		return t
	}
	ctx, conclude := t.control.options.Around(t, t.item.Key())
	t.afterReconcile = conclude
	if ctx == nil {
		return t
	}
	return ctx
}

// remember adds the attempt to the key's history. Call it before the item ends,
// because after that the causes are lost and the key may be dispatched again.
func (t *reconcileContext) remember(writes []write, err error) {
	took := time.Since(t.began)
	t.number = t.control.histories.add(t, took, writes, err)
	if t.afterReconcile != nil {
		a := t.describe(took, writes, err)
		a.Causes = t.item.Causes()
		t.reported = &a
	}
}

// conclude records the outcome and calls the function that Options.Around
// returned. A panic of that function is only logged, because the key has been
// reconciled.
func (t *reconcileContext) conclude(o inspect.Outcome, err error, w *worker) {
	t.control.histories.ended(t.item.Key(), t.number, o)
	if t.reported == nil {
		return
	}
	w.begin(&hookCall{t, time.Now().Add(t.control.options.ReconcileTimeout)})
	defer func() {
		w.end()
		if r := recover(); r != nil {
			klog.FromContext(t).Error(fmt.Errorf("panic: %v", r), "reconcile.Options.Around panicked after a reconcile")
		}
	}()
	t.reported.Outcome = o
	t.afterReconcile(*t.reported, err)
}

// add records an attempt, whose item must not have ended. It returns the number
// of the attempt, or 0 if it is not recorded.
func (h *histories) add(t *reconcileContext, took time.Duration, writes []write, err error) uint64 {
	eventful := len(writes) > 0 || err != nil || t.overdue
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.get(t.item.Key(), eventful)
	if k == nil {
		return 0
	}
	a := t.describe(took, writes, err)
	if eventful || k.watched.After(t.began) {
		a.Causes = t.item.Causes()
	}
	if len(k.attempts) < historyLength {
		k.attempts = append(k.attempts, a)
	} else {
		k.attempts[k.number%historyLength] = a
	}
	k.number++
	return k.number
}

// describe returns the attempt without its causes and its outcome.
func (t *reconcileContext) describe(took time.Duration, writes []write, err error) inspect.Attempt {
	a := inspect.Attempt{
		Key: t.item.Key(), Number: t.item.Attempt(), Start: t.began, Took: took, Overdue: t.overdue,
		MoreWrites: max(len(writes)-maxWritesKept, 0),
	}
	for _, w := range writes[:len(writes)-a.MoreWrites] {
		a.Writes = append(a.Writes, inspect.Write{
			Kind: kindOf(w.object), Namespace: w.object.GetNamespace(), Name: w.object.GetName(),
			ResourceVersion: w.object.GetResourceVersion(), Deleted: w.deleted,
		})
	}
	if err != nil {
		a.Failure = redact.Error(err)
	}
	return a
}

// maxWritesKept bounds the writes that an inspect.Attempt lists.
const maxWritesKept = 10

// hookCall is a call of the function that Options.Around returned.
type hookCall struct {
	*reconcileContext

	end time.Time
}

func (h *hookCall) Deadline() (time.Time, bool) { return h.end, true }

func (h *hookCall) subject() string {
	return fmt.Sprintf("the function of reconcile.Options.Around after the reconcile of %q", h.item.Key())
}

func (t *reconcileContext) subject() string { return fmt.Sprintf("the reconcile of %q", t.item.Key()) }

// showOverdue counts a call that has not returned in time. If the call is a
// reconcile, the text also becomes the failure of its key on the status page.
func (r *records) showOverdue(c call, text string) {
	r.stats.overran.Add(1)
	if t, ok := c.(*reconcileContext); ok {
		r.failures.put(t.item.Key(), failure{text: text, failedAt: time.Now()})
	}
}

// describe returns causes as text for a log line, such as "nodes: updated
// /node-1 41→57; pods: deleted d/a 12→ (3 merged)".
func describe(causes []queue.Cause) string {
	var b strings.Builder
	for i, c := range causes {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(c.Trigger + ": " + c.Type + " " + c.Namespace + "/" + c.Name)
		if c.OldVersion != "" || c.NewVersion != "" {
			b.WriteString(" " + c.OldVersion + "→" + c.NewVersion)
		}
		if c.Merged > 0 {
			fmt.Fprintf(&b, " (%d merged)", c.Merged)
		}
	}
	return b.String()
}
