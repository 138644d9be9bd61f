package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// Run makes a controller with the default options and runs it until ctx ends.
// It combines [New] and [Controller.Run].
//
// Run returns the errors of New and of Controller.Run.
func Run[T informer.Object](ctx context.Context, name string, cache *informer.Informer[T], r Reconciler[T]) error {
	c, err := New(name, cache, r, nil)
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// RunAll runs controllers side by side until ctx ends. If one of them fails,
// RunAll stops the others. An informer that several of them use is started once
// and stopped after the last one.
//
// RunAll returns an error before any controller starts if a controller is nil,
// or if two controllers have the same name. Otherwise it returns the errors of
// each [Controller.Run], joined. Without controllers it returns nil at once.
func RunAll(ctx context.Context, controllers ...*Controller) error {
	names := map[string]bool{}
	for i, c := range controllers {
		if c == nil {
			return fmt.Errorf("running controllers: controllers[%d] is nil: check the error that New returned", i)
		}
		if names[c.name] {
			return fmt.Errorf(
				"running controllers: two controllers are named %q: they would share logs, metrics and field managers", c.name)
		}
		names[c.name] = true
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	errs := make([]error, len(controllers))
	for i, c := range controllers {
		running.Go(func() {
			if errs[i] = c.Run(ctx); errs[i] != nil {
				stop()
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// Run starts the informers, waits until each has its first list, and then
// reconciles until ctx ends. A namespace may get its first list later, if
// SetNamespaces has added it or the informer has Options.Independent. Its keys
// wait until then.
//
// The stop is graceful, in this order: no new reconciles start; reconciles in
// flight continue for at most Options.Grace, then their context is cancelled
// with [ErrGraceExpired]; informers that no other controller uses stop. Run
// returns when everything has ended, or soon after the grace period if
// something does not end.
//
// Errors name the cache that never synced, and the reason; the cached objects
// that were modified in place (informer.Options.MutationCheck); or, with
// [ErrGraceExpired], the calls that ignore their context, and the informers
// with a request that does so. The goroutines of such calls keep running, and
// keep the leadership. A second call of Run is an error. The end of ctx is not
// an error once the caches are filled, or with Options.Optional.
// [ErrGraceExpired] is an error in either case.
func (c *Controller) Run(ctx context.Context) error {
	syncing := inspect.Syncing
	if !c.phase.CompareAndSwap(nil, &syncing) {
		return fmt.Errorf("running controller %q: it has run already: make a new one", c.name)
	}
	ended := make(chan error, 1)
	go func() {
		errs := make([]error, len(c.sources)) // how each informer ended
		err := c.run(ctx, errs)
		ended <- errors.Join(append(errs, err)...)
	}()
	var err error
	select {
	case err = <-ended:
	case err = <-c.watchdog.gaveUp:
	}
	if err != nil {
		return fmt.Errorf("running controller %q: %w", c.name, err)
	}
	return nil
}

// run is Run without the watchdog. It returns when every goroutine that it
// started has ended, and stores in errs how each informer ended.
//
//	ctx ends ─▶ no new keys ─▶ reconciles end ─▶ triggers detach ─▶ informers stop
func (c *Controller) run(ctx context.Context, errs []error) (err error) {
	defer c.enter(inspect.Stopped)
	defer c.failureLog.end()
	ctx = logr.NewContext(ctx, klog.FromContext(ctx).WithName(c.name))
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	informing := make([]atomic.Bool, len(c.sources))
	defer func() {
		stop()
		defer time.AfterFunc(returnTimeout, func() {
			ended, unended := c.outcomes(informing, errs)
			c.watchdog.giveUp(errors.Join(append(ended, err)...), unended...)
		}).Stop()
		running.Wait()
	}()
	defer c.queue.Stop()

	c.parking.begin(background, &running)
	defer c.attach(background, &running)()
	joined := make([]context.Context, len(c.sources))
	for i, s := range c.sources {
		var join context.CancelFunc
		joined[i], join = context.WithCancel(ctx)
		informing[i].Store(true)
		running.Go(func() {
			defer informing[i].Store(false)
			defer join()
			if c.slots != nil && c.slots.caches != nil && referencesOf(s) == nil {
				errs[i] = c.slots.caches.ranger.RunCache(background, s.Parts().Shards(), join)
			} else {
				errs[i] = s.Parts().RunWhole(background, join)
			}
		})
	}
	for i, s := range c.sources {
		<-joined[i].Done() // until then, it may be synced only for controllers that need less of it
		if err := s.Parts().WaitForStart(ctx); err != nil && c.options.Optional && ctx.Err() != nil {
			return nil // the controller was optional, and never started
		} else if err != nil {
			return fmt.Errorf("waiting for the cache of %s: %w", s.Name(), err)
		}
	}
	klog.FromContext(ctx).V(1).Info("caches are filled", "informers", len(c.sources))
	if c.options.Resync > 0 {
		running.Go(func() { c.resync(background) })
	}
	if c.orphans != nil {
		c.orphans.run(ctx, &running, c.watchdog)
	}
	return c.lead(ctx)
}

// outcomes returns the errors with which informers have ended, and an error for
// each informer that has not ended. Such an informer waits for a call that
// ignores its context.
func (c *Controller) outcomes(informing []atomic.Bool, errs []error) (ended, unended []error) {
	for i, s := range c.sources {
		if !informing[i].Load() {
			ended = append(ended, errs[i])
			continue
		}
		unended = append(unended, fmt.Errorf("the informer of %s has not ended: a request, or a function of the program, "+
			"ignores that its context has ended, and its goroutine remains until it returns", s.Name()))
	}
	return ended, unended
}

// attach connects the informers and triggers to the queue, until detach is
// called.
func (c *Controller) attach(ctx context.Context, running *sync.WaitGroup) (detach func()) {
	undo := []func(){c.fresh.attach(ctx, running), c.references.attach(), c.attachPrimary()}
	for _, t := range c.options.Triggers {
		b := t.attach(&c.intake)
		undo = append(undo, b.detach)
		if b.run != nil {
			running.Go(func() { b.run(ctx) })
		}
	}
	return func() {
		for _, f := range undo {
			f()
		}
	}
}

// lead runs the workers until ctx ends. With Options.Leader they run while this
// replica leads, and with Options.Shards they reconcile the keys of its slots.
func (c *Controller) lead(ctx context.Context) error {
	defer c.enter(inspect.Stopping)
	if c.slots != nil {
		return c.runShards(ctx)
	}
	if c.options.Leader == nil {
		c.work(ctx, ctx)
		return nil
	}
	c.enter(inspect.Standby)
	return c.options.Leader.Run(ctx, func(leading context.Context) error {
		c.takeOver(leading)
		c.queue.Parts().Reopen()
		c.work(ctx, leading)
		if ctx.Err() == nil {
			c.endTerm()
		}
		return nil
	})
}

// endTerm makes this replica a standby. It drops the failures of the keys,
// because the next leader reconciles them.
func (c *Controller) endTerm() {
	c.enter(inspect.Standby)
	c.failures.forget(func(Key) bool { return true })
	c.lingering.forget(func(Key) bool { return true })
}

// work runs the workers until leading has ended and every reconcile has
// returned. If ctx has ended, reconciles in flight have the grace period to
// finish. Otherwise the leadership was lost: they are cancelled at once,
// because another replica may be working already.
func (c *Controller) work(ctx, leading context.Context) {
	c.enter(inspect.Working)
	reconciles, abandon := context.WithCancelCause(context.WithoutCancel(leading))
	defer abandon(nil)
	var workers sync.WaitGroup
	c.spawnWorkers(&workers, func(w *worker) bool {
		item, err := c.queue.Get(leading)
		if err == nil {
			c.reconcileOnce(reconciles, item, w)
		}
		return err == nil
	})
	<-leading.Done()
	c.enter(inspect.Stopping)
	if ctx.Err() == nil {
		abandon(context.Cause(leading))
	}
	grace := time.AfterFunc(c.options.Grace, func() {
		klog.FromContext(ctx).Info("grace period expired, cancelling reconciles", "grace", c.options.Grace)
		abandon(ErrGraceExpired)
	})
	defer grace.Stop()
	defer c.watchdog.giveUpAfter(ctx, c.options.Grace+returnTimeout)()
	workers.Wait()
}

// resync enqueues all cached keys once in each period, evenly spread, until ctx
// ends.
func (c *Controller) resync(ctx context.Context) {
	period := time.Tick(c.options.Resync)
	for {
		select {
		case <-ctx.Done():
			return
		case <-period:
		}
		keys := c.primary.keys()
		for i, key := range keys {
			c.enqueueBehind(key, "resync", "resync", c.options.Resync*time.Duration(i)/time.Duration(len(keys)))
		}
	}
}

// runShards works on the slots of this replica until ctx ends.
func (c *Controller) runShards(ctx context.Context) error {
	s := c.slots
	c.enter(inspect.Standby)
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	s.latest = coalescer{running: &running, call: func() error { c.takeOver(background); return nil }}
	if s.caches != nil {
		s.caches.replays = &running
		s.latest.call = func() error { s.caches.fill(background); return nil }
		if err := s.caches.ranger.Divide(ctx, c.sources.caches()); ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
		running.Go(func() { s.caches.ranger.Remember(background, c.sources[0].Parts().Shards(), s.keepDeleted()) })
		running.Go(func() { s.caches.ranger.Measure(background, s.objects) })
	}
	s.fill = coalescer{running: &running, call: s.enqueue}
	defer s.cancelSweep()
	c.spawnWorkers(&running, func(w *worker) bool { return c.reconcileNext(background, w) })
	return c.options.Shards.Run(ctx, func(owned context.Context, slot int) error { return s.runSlot(ctx, owned, slot) })
}

// reconcileNext takes the next key, and reconciles it if this replica has its
// slot; otherwise it drops the key. It returns false when ctx has ended.
func (c *Controller) reconcileNext(ctx context.Context, w *worker) bool {
	item, err := c.queue.Get(ctx)
	if err != nil {
		return false
	}
	r := c.slots.enter(item.Key())
	if r == nil {
		c.slots.pass(item.Key())
		c.external.dispatched(item.Key())
		item.Done()
		return true
	}
	defer r.running.Done()
	c.reconcileOnce(r.reconciles, item, w)
	return true
}
