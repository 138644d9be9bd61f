package reconcile

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/queue"
)

// maxWritesKept bounds the writes that an [Attempt] lists.
const maxWritesKept = 10

// An Attempt is one reconcile of a key: what caused it, what it wrote, and how it
// ended. Its slices are shared; do not modify them.
type Attempt struct {
	Key Key
	// Number is 1, and one more for each failure in a row before.
	Number int
	Start  time.Time
	Took   time.Duration
	// Causes of the reconcile; see [Controller.History] for when they are known.
	Causes []queue.Cause
	// Writes are the first 10; MoreWrites counts the others.
	Writes     []Write
	MoreWrites int
	// Seen is when the caches had seen all of the writes; zero until then, and
	// for writes to what the controller does not watch.
	Seen time.Time
	// Overdue reports whether the reconcile began before the caches had seen the
	// key's last writes.
	Overdue bool
	Outcome Outcome
	// Failure is the first line of the error; empty after a success.
	Failure string
}

// A Write is an object that a reconcile created, changed or deleted.
type Write struct {
	Kind, Namespace, Name string
	ResourceVersion       string // as the server answered
	Deleted               bool
}

// attempt describes what t did, but for causes and outcome.
func (t *turnContext) attempt(took time.Duration, writes []write, err error) Attempt {
	a := Attempt{
		Key: t.item.Key(), Number: t.item.Attempt(), Start: t.began, Took: took, Overdue: t.overdue,
		MoreWrites: max(len(writes)-maxWritesKept, 0),
	}
	for _, w := range writes[:len(writes)-a.MoreWrites] {
		a.Writes = append(a.Writes, Write{
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
func (t *turnContext) conclude(o Outcome, err error, seat *seat) {
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
