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

// Name of the controller.
const Name = "observe"

// An Observer is made by [New], and runs once.
type Observer struct {
	// Controller is for probes and the page about it.
	Controller *reconcile.Controller

	options *Options
	memory  *memory
	counts  *counts
	leavers *leavers
	synced  func() bool
	remove  func()
	stop    context.CancelCauseFunc // set by Run, before any reconcile
}

// New returns an observer of the objects of in. Live reads from the server, in a
// namespace. Nothing starts before Run.
func New[T informer.Object](
	in *informer.Informer[T], live func(namespace string) Getter[T], runner Runner, p Progress, o Options,
) (*Observer, error) {
	made := &Observer{options: &o, memory: newMemory(), counts: newCounts(), synced: in.HasSynced}
	r := &reconciler[T]{
		options: &o, runner: runner, live: live, memory: made.memory, counts: made.counts, progress: p,
		tooMany: func() { made.stop(ErrTooManyErrors) },
	}
	if o.Names != nil {
		o.Controller.Known = knownNames{lister: o.Names, options: &o, counts: made.counts}
	}
	var err error
	if made.Controller, err = reconcile.New(Name, in, r, &o.Controller); err != nil {
		return nil, err
	}
	made.leavers = &leavers{
		memory: made.memory, enqueue: made.Controller.Enqueue, timers: map[reconcile.Key]*time.Timer{},
	}
	made.remove = in.Handle(func(e informer.Event[T]) {
		switch {
		case e.Initial:
			made.memory.listed(keyOf(e.New))
		case e.Type == informer.Added:
			made.leavers.returned(keyOf(e.New))
		case e.Type == informer.Deleted && len(o.Delete) > 0 && !o.Once:
			made.leavers.left(keyOf(e.Old))
		}
	})
	return made, nil
}

func keyOf(o informer.Object) reconcile.Key {
	return reconcile.Key{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Collectors of the runs, for Prometheus.
func (o *Observer) Collectors() []prometheus.Collector { return o.counts.collectors() }

// HasSynced reports whether the first list is in the cache.
func (o *Observer) HasSynced() bool { return o.synced() }

// Summary returns the counts so far.
func (o *Observer) Summary() Summary {
	return Summary{
		Keys: o.memory.keysKnown(), Runs: o.counts.runs.Load(), Failures: o.counts.failures.Load(),
		Retries: o.counts.retries.Load(), Deletions: o.counts.deletions.Load(),
	}
}

// Run observes until ctx ends, or until there is nothing left to do if it is to
// run once.
//
// Errors: [ErrTooManyErrors], [ErrKeysFailed], [ErrNamesFailed]; those of the
// controller.
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

// errIdle says that everything has been done.
var errIdle = errors.New("everything has been done")

// stopWhenIdle stops when nothing is left to do. It polls, since no event shows that
// queue, cache and sweep are all at rest.
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

// verdict is the result of a single pass.
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
