package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// Run makes a controller with the default options and runs it until ctx ends:
// [New] and [Controller.Run] in one line.
func Run[T informer.Object](ctx context.Context, name string, in *informer.Informer[T], r Reconciler[T]) error {
	c, err := New(name, in, r, nil)
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// RunAll runs controllers side by side until ctx ends or one of them fails,
// which stops the others. An informer that several of them use is started
// once and stopped after the last.
//
// Errors: a nil controller, or a name that two share, before anything starts; otherwise
// those of each [Controller.Run], joined.
func RunAll(ctx context.Context, controllers ...*Controller) error {
	names := map[string]bool{}
	for i, c := range controllers {
		if c == nil {
			return fmt.Errorf("running controllers: controllers[%d] is nil: New has returned an error", i)
		}
		if names[c.name] {
			return fmt.Errorf("running controllers: two are named %q: logs, metrics and field manager would mix", c.name)
		}
		names[c.name] = true
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	faults := make([]error, len(controllers))
	for i, c := range controllers {
		running.Go(func() {
			if faults[i] = c.Run(ctx); faults[i] != nil {
				stop()
			}
		})
	}
	running.Wait()
	return errors.Join(faults...)
}

// Run starts the informers, waits until each has its first list, and then
// reconciles until ctx ends.
//
// The stop is graceful and in this order: no new reconciles; those in flight go
// on for at most Options.Grace, then their context is cancelled with
// [ErrStopping]; informers that no other controller uses stop. Run returns when
// all of it has ended, or soon after the grace period if something does not end.
//
// Errors: which cache never synced, and why; which cached objects were modified
// in place (informer.Options.MutationCheck); what ignores its context, with
// [ErrStopping]: its goroutine goes on, and keeps the leadership.
func (c *Controller) Run(ctx context.Context) error {
	if c.started.Swap(true) {
		return fmt.Errorf("running controller %q: it has run already: make a new one", c.name)
	}
	ended := make(chan error, 1)
	go func() {
		defer c.watch.close()
		faults := make([]error, len(c.sources)) // what each informer ended with
		err := c.run(ctx, faults)
		ended <- errors.Join(append(faults, err)...)
	}()
	var err error
	select {
	case err = <-ended:
	case err = <-c.watch.gaveUp:
	}
	if err != nil {
		return fmt.Errorf("running controller %q: %w", c.name, err)
	}
	return nil
}

func (c *Controller) run(ctx context.Context, faults []error) error {
	c.enter(inspect.Syncing)
	defer c.enter(inspect.Stopped)
	ctx = logr.NewContext(ctx, klog.FromContext(ctx).WithName(c.name))
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer func() {
		stop()
		defer time.AfterFunc(returnWithin, c.watch.giveUp).Stop()
		running.Wait()
	}()
	defer c.queue.Stop()

	detach, err := c.attach(background, &running)
	defer detach()
	if err != nil {
		return err
	}
	for i, s := range c.sources {
		running.Go(func() { faults[i] = s.Run(background) })
	}
	for _, s := range c.sources {
		if err := s.WaitForSync(ctx); err != nil {
			return fmt.Errorf("waiting for the cache of %s: %w", s.Name(), err)
		}
	}
	if c.options.Resync > 0 {
		running.Go(func() { c.resync(background) })
	}
	if c.sweep != nil {
		c.sweepUntil(ctx, &running)
	}
	return c.lead(ctx)
}

// lead works until ctx ends: always, whenever this replica leads, or on its
// slots.
func (c *Controller) lead(ctx context.Context) error {
	defer c.enter(inspect.Stopping)
	if c.options.Shards != nil {
		return c.share(ctx)
	}
	if c.options.Leader == nil {
		c.work(ctx, ctx)
		return nil
	}
	c.enter(inspect.Standby)
	return c.options.Leader.Run(ctx, func(leading context.Context) error {
		c.takeOver(leading)
		c.work(ctx, leading)
		if ctx.Err() == nil {
			c.enter(inspect.Standby)
		}
		return nil
	})
}

// A binding connects a trigger with a running controller.
type binding struct {
	detach func()                // ends the feed
	run    func(context.Context) // nil, or what must run for the feed to work
}

func (c *Controller) attach(ctx context.Context, running *sync.WaitGroup) (detach func(), err error) {
	undo := []func(){c.fresh.attach(ctx, running), c.attachPrimary()}
	detach = func() {
		for _, f := range undo {
			f()
		}
	}
	for _, t := range c.options.Triggers {
		b, err := t.attach(c)
		if err != nil {
			return detach, err
		}
		undo = append(undo, b.detach)
		if b.run != nil {
			running.Go(func() { b.run(ctx) })
		}
	}
	return detach, nil
}

// work runs the workers until leading has ended and every turn with it. If it
// ended because ctx did, turns in flight have the grace period to finish; if
// not, the leadership was lost, and another replica may be at work already.
func (c *Controller) work(ctx, leading context.Context) {
	c.enter(inspect.Working)
	turns, abandon := context.WithCancelCause(context.WithoutCancel(leading))
	defer abandon(nil)
	var workers sync.WaitGroup
	for range c.options.Workers {
		c.watch.staff(&workers, func(seat *seat) bool {
			item, err := c.queue.Get(leading)
			if err == nil {
				c.turn(turns, item, seat)
			}
			return err == nil
		})
	}
	<-leading.Done()
	c.enter(inspect.Stopping)
	if ctx.Err() == nil {
		abandon(context.Cause(leading))
	}
	grace := time.AfterFunc(c.options.Grace, func() {
		klog.FromContext(ctx).Info("grace period is over, cancelling turns", "grace", c.options.Grace)
		abandon(ErrStopping)
	})
	defer grace.Stop()
	defer c.watch.giveUpOnceStopped(ctx, c.options.Grace+returnWithin)()
	workers.Wait()
}

// takeoverDeadline bounds how long a new leader, or the new owner of a slot, waits
// for its caches.
const takeoverDeadline = time.Minute

// takeOver waits until the caches are as new as the server is now. The replica
// before this one may have written until a moment ago, but does not any more.
//
// It gives up after a minute, with a log line: a server that does not answer
// reads that long must not keep the controller from its work for good.
func (c *Controller) takeOver(ctx context.Context) {
	log := klog.FromContext(ctx)
	limited, cancel := context.WithTimeout(ctx, takeoverDeadline)
	defer cancel()
	slow := time.AfterFunc(c.options.FreshnessDeadline, func() {
		log.Info("taking over: waiting for caches that may not have seen the last writes", "timeout", takeoverDeadline)
	})
	defer slow.Stop()
	if err := c.waitForLatest(limited); err != nil && ctx.Err() == nil {
		log.Error(err, "taking over on caches that may not have seen the last writes")
	}
}

// resync enqueues all known keys once in each period, evenly spread, until ctx
// ends.
func (c *Controller) resync(ctx context.Context) {
	period := time.NewTicker(c.options.Resync)
	defer period.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-period.C:
		}
		keys := c.keys()
		for i, key := range keys {
			c.queue.AddWithOptions(key, queue.AddOptions{
				Lane:  queue.Background,
				After: c.options.Resync * time.Duration(i) / time.Duration(len(keys)),
				Cause: queue.Cause{Trigger: "resync", Type: "resync", Namespace: key.Namespace, Name: key.Name},
			})
		}
	}
}
