package reconcile

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/reconcile/inspect"
)

// maxWritesKept bounds the writes that an inspect.Attempt lists.
const maxWritesKept = 10

// attempt describes what t did, but for causes and outcome.
func (t *turnContext) attempt(took time.Duration, writes []write, err error) inspect.Attempt {
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
		a.Failure = tellSafely(err)
	}
	return a
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
