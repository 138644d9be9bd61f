package observer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
)

// Name is the name of the controller.
const Name = "observe"

// An Observer runs a program for each object. [New] returns an Observer, which
// can run only once.
type Observer struct {
	// Controller is the underlying controller, for probes and the status page.
	Controller *reconcile.Controller

	options *Options
	memory  *memory
	counts  *counts
	leavers *leavers
	synced  func() bool
	remove  func()
	stop    context.CancelCauseFunc // ends the observer; set by Run before the first reconcile
}

// New returns an observer of the objects in the informer. The caller runs it
// with Run. live returns a client that reads the objects of a namespace from
// the server.
func New[T informer.Object](
	objects *informer.Informer[T], live func(namespace string) Getter[T], runner Runner, p Progress, o Options,
) (*Observer, error) {
	observer := &Observer{options: &o, memory: newMemory(), counts: newCounts(), synced: objects.HasSynced}
	r := &reconciler[T]{
		options: &o, runner: runner, live: live, memory: observer.memory, counts: observer.counts, progress: p,
		tooMany: func() { observer.stop(ErrTooManyErrors) },
	}
	if o.Names != nil {
		o.Controller.Known = knownNames{lister: o.Names, options: &o, counts: observer.counts}
	}
	var err error
	if observer.Controller, err = reconcile.New(Name, objects, r, &o.Controller); err != nil {
		return nil, err
	}
	observer.leavers = &leavers{
		memory: observer.memory, enqueue: observer.Controller.Enqueue, timers: map[reconcile.Key]*time.Timer{},
	}
	observer.remove = objects.Handle(func(e informer.Event[T]) {
		switch {
		case e.Initial:
			observer.memory.listed(keyOf(e.New))
		case e.Type == informer.Added:
			observer.leavers.returned(keyOf(e.New))
		case e.Type == informer.Deleted && len(o.Delete) > 0 && !o.Once:
			observer.leavers.add(keyOf(e.Old))
		}
	})
	return observer, nil
}

func keyOf(o informer.Object) reconcile.Key {
	return reconcile.Key{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Collectors returns the metrics of the runs for Prometheus.
func (o *Observer) Collectors() []prometheus.Collector { return o.counts.collectors() }

// HasSynced reports whether the cache contains the objects of the first list.
func (o *Observer) HasSynced() bool { return o.synced() }

// Summary returns the counts so far.
func (o *Observer) Summary() Summary {
	return Summary{
		Keys: o.memory.keysKnown(), Runs: o.counts.runs.Load(), Failures: o.counts.failures.Load(),
		Retries: o.counts.retries.Load(), Deletions: o.counts.deletions.Load(),
	}
}

// Run observes until ctx ends. With Options.Once it returns when no work is
// left.
//
// It returns [ErrTooManyErrors], [ErrKeysFailed], [ErrNamesFailed], or an error
// of the controller.
func (o *Observer) Run(ctx context.Context) error {
	defer o.leavers.stop()
	defer o.remove()
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	o.stop = stop
	if o.options.Once {
		go o.stopWhenIdle(working)
	}
	err := o.Controller.Run(working)
	switch cause := context.Cause(working); {
	case ctx.Err() != nil:
		return err
	case errors.Is(cause, ErrTooManyErrors):
		return errors.Join(fmt.Errorf("%w of %d, exiting", cause, o.options.MaxErrors), err)
	case !errors.Is(cause, errIdle):
		return cmp.Or(err, cause)
	}
	return errors.Join(o.verdict(), err)
}

// errIdle is the cause with which an observer with Options.Once stops when it
// has done all work.
var errIdle = errors.New("no work is left")

// stopWhenIdle stops the observer when no work is left. It polls, because no
// event shows that the queue, the cache and the sweep are idle.
func (o *Observer) stopWhenIdle(ctx context.Context) {
	ticker := time.NewTicker(idleCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if o.idle() {
				o.stop(errIdle)
			}
		}
	}
}

func (o *Observer) idle() bool {
	if !o.synced() {
		return false
	}
	if sweep := o.Controller.Sweep(); sweep != nil {
		if s := sweep.Stats(); s.Sweeps+s.Failures == 0 {
			return false
		}
	}
	q := o.Controller.QueueStats()
	waiting := q.Held + q.Delayed
	for _, lane := range q.Lanes {
		waiting += lane.Depth
	}
	return waiting == 0
}

// verdict returns the result of an observer that ran with Options.Once.
func (o *Observer) verdict() error {
	if sweep := o.Controller.Sweep(); sweep != nil {
		if s := sweep.Stats(); s.Sweeps == 0 {
			return fmt.Errorf("%w: %w", ErrNamesFailed, sweep.Ready())
		}
	}
	if failing := o.Controller.Stats().Failing; failing > 0 {
		return fmt.Errorf("%w: %d of %d", ErrKeysFailed, failing, o.memory.keysKnown())
	}
	return nil
}
