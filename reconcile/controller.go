package reconcile

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// The causes (context.Cause) with which the context of a reconcile ends.
var (
	// ErrStopping is the cause if the reconcile was still running when the grace
	// period of a stopping controller ended.
	ErrStopping = errors.New("the controller is stopping and its grace period is over")
	// ErrReconcileTimeout is the cause if the reconcile took longer than
	// Options.ReconcileTimeout.
	ErrReconcileTimeout = errors.New("the reconcile took longer than its timeout")
)

// A Controller calls a Reconciler for every object of an informer, and again
// whenever the object or what its triggers watch has changed.
//
// It is made by [New], runs once, and is safe for concurrent use.
type Controller struct {
	name    string
	kind    string
	options Options
	sources []source // each informer once, the primary first
	queue   *queue.Queue[Key]
	fresh   *freshness
	loops   detector
	stats   stats
	watch   *watch
	room    room   // of external triggers
	owners  owners // if there is a trigger made by Owned

	phase     atomic.Pointer[inspect.Phase] // nil before Run
	outputs   outputs
	failures  failures
	histories histories

	attachPrimary func() (detach func())
	reconcile     func(t *turnContext) (Result, error)
	keys          func() []Key
	sweep         *names.Sweep // nil without Options.Known
	slots         *sharing     // nil without Options.Shards

	forgetReplaced func(gone func(Key) bool) // nil without Options.Known
	started        atomic.Bool
}

// New returns a controller that reconciles the objects of in with r. The name
// stands in logs and metrics, and is the field manager of what is written.
//
// Nothing starts before Run. Errors: every fault of the arguments, joined.
func New[T informer.Object](
	name string, in *informer.Informer[T], r Reconciler[T], o *Options,
) (*Controller, error) {
	options := o.withDefaults(name)
	c := &Controller{name: name, options: options}
	q, refused := queue.New[Key](&queue.Options[Key]{
		Name:        name,
		Backoff:     options.Backoff,
		MinInterval: options.MinInterval,
		Group:       c.guardedGroup(),
	})
	c.queue = q
	c.watch = newWatch(c.showOverdue, logOverdue)
	if options.Shards != nil {
		c.slots = &sharing{controller: c, shifts: map[int]*shift{}}
	}
	c.reconcile = func(t *turnContext) (Result, error) {
		key := t.item.Key()
		object, ok := in.Get(key)
		result, err := r.Reconcile(t.around(), Request[T]{Key: key, object: object, found: ok})
		if mutated := in.CheckMutations(key); mutated != nil {
			err = errors.Join(err, fmt.Errorf("the reconciler edited the cache instead of a copy: %w", mutated))
		}
		return result, err
	}
	if err := errors.Join(validate(name, in, r), options.validate(), refused,
		oneCluster(typed[T]{in}, options.Triggers), noneWrapped(&options, typed[T]{in}),
		validateInformers(typed[T]{in}, options.Triggers), sweepKnown(c, in, r)); err != nil {
		return nil, fmt.Errorf("making controller %q: %w", name, err)
	}
	if slices.ContainsFunc(options.Triggers, func(t Trigger) bool { return t.triggerType() == "owned" }) {
		var err error
		if c.owners, err = ownersFor(typed[T]{in}); err != nil {
			return nil, fmt.Errorf("making controller %q: %w", name, err)
		}
	}
	c.kind, c.loops.manager = in.Kind(), options.FieldManager
	c.sources = sourcesOf(typed[T]{in}, options.Triggers)
	c.fresh = &freshness{queue: q, deadline: options.FreshnessDeadline, sources: c.sources, onSeen: c.histories.seen}
	c.attachPrimary = func() func() {
		feed := feedOf(in)
		return in.Handle(func(e informer.Event[T]) { enqueue(c, feed, e) })
	}
	c.keys = func() []Key {
		known := in.Snapshot()
		keys := make([]Key, 0, known.Len())
		for object := range known.All() {
			keys = append(keys, Key{Namespace: object.GetNamespace(), Name: object.GetName()})
		}
		return keys
	}
	return c, nil
}

func validate[T informer.Object](name string, in *informer.Informer[T], r Reconciler[T]) error {
	var faults []error
	if name == "" {
		faults = append(faults, errors.New("name is empty: it stands in logs and metrics and is the field manager"))
	}
	if in == nil {
		faults = append(faults, errors.New("informer is nil: make one with informer.For"))
	}
	if v := reflect.ValueOf(r); !v.IsValid() || (v.Kind() == reflect.Func || v.Kind() == reflect.Pointer) && v.IsNil() {
		faults = append(faults, errors.New("reconciler is nil"))
	}
	return errors.Join(faults...)
}

// validateInformers returns what is wrong with the options of the informers.
func validateInformers(own source, triggers []Trigger) error {
	if isNil(own) || slices.Contains(triggers, nil) {
		return nil // reported elsewhere
	}
	var errs []error
	for _, s := range sourcesOf(own, triggers) {
		if !isNil(s) {
			errs = append(errs, s.Validate())
		}
	}
	return errors.Join(errs...)
}

func enqueue[T informer.Object](c *Controller, feed *feed[T], e informer.Event[T]) {
	object := e.New
	if e.Type == informer.Deleted {
		object = e.Old
	}
	c.queue.AddWithOptions(Key{Namespace: object.GetNamespace(), Name: object.GetName()}, feed.addition(e))
}

func sourcesOf(primary source, triggers []Trigger) []source {
	sources := []source{primary}
	for _, t := range triggers {
		s := t.source()
		known := s == nil // an external one
		for _, other := range sources {
			known = known || other.identity() == s.identity()
		}
		if !known {
			sources = append(sources, s)
		}
	}
	return sources
}

// Name returns the controller's name.
func (c *Controller) Name() string { return c.name }

// QueueStats returns what the controller's queue has done and holds.
func (c *Controller) QueueStats() queue.Stats { return c.queue.Stats() }

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
