package reconcile

import (
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// The causes (context.Cause) with which the context of a reconcile ends. It also
// ends when the leadership or the shard is lost, with the cause that the Leader or
// the Shards give.
var (
	// ErrGraceExpired is the cause if the reconcile was still running when the grace
	// period of a stopping controller ended. [Controller.Run] returns it, with the
	// names of the calls, if one has not returned five seconds after that.
	ErrGraceExpired = errors.New("the controller is stopping and its grace period is over")
	// ErrReconcileTimeout is the cause if the reconcile took longer than
	// Options.ReconcileTimeout. The context's Err is then context.DeadlineExceeded,
	// and context.Canceled for every other cause.
	ErrReconcileTimeout = errors.New("the reconcile took longer than its timeout")
)

// Controller calls a Reconciler for every object of an informer, and again
// whenever the object or what its triggers watch has changed.
//
// It is made by [New], and runs once. Its methods may be called at any time, from
// any goroutine; those that return types of package inspect never wait for a
// reconcile. A Controller that is not run holds neither goroutines nor handlers.
type Controller struct {
	name     string
	options  Options
	primary  primary
	sources  sources // each informer once, the primary first
	owners   owners  // if there is a trigger made by Owned
	queue    *queue.Queue[Key]
	external externalKeys
	fresh    *freshness
	loops    loopDetector
	watchdog *watchdog
	orphans  *orphans     // nil without Options.Known
	slots    *shardRunner // nil without Options.Shards
	phase    atomic.Pointer[inspect.Phase]
	records  // for people and metrics
}

// primary is the controller's view of the informer of its own objects and of
// its reconciler, without their type parameter.
type primary struct {
	kind string
	// attach enqueues the key of every object that changes, until detach is called.
	attach func() (detach func())
	// reconcile calls the reconciler with the cached object.
	reconcile func(*reconcileContext) (Result, error)
	// keys returns the keys of all cached objects, and has reports whether one is.
	keys func() []Key
	has  func(Key) bool
	// inScope reports whether the cache would have the object of a key.
	inScope func(Key) bool
}

// New returns a controller that reconciles the objects of in with r. The name
// stands in logs and metrics, and is the default field manager of r's writes.
// A nil o means the defaults. Controllers may share an informer, and the
// controllers of one process need different names ([RunAll] checks that).
//
// It starts nothing. Errors: every fault of the arguments and of the options,
// those of the informers included, joined.
func New[T informer.Object](
	name string, in *informer.Informer[T], r Reconciler[T], o *Options,
) (*Controller, error) {
	options := o.withDefaults(name)
	c := &Controller{name: name, options: options}
	c.watchdog = newWatchdog(c.showOverdue, logOverdue)
	var refused error
	c.queue, refused = queue.New[Key](&queue.Options[Key]{
		Name: name, Backoff: options.Backoff, MinInterval: max(options.MinInterval, 0), Group: guardedGroup(c),
	})
	if options.Shards != nil {
		c.slots = &shardRunner{
			controller: c, runs: map[int]*slotRun{}, draining: map[int]bool{}, failed: unfinished{}, waiting: unfinished{},
		}
		c.slots.caches = cachesOf(c.slots)
	}
	c.primary.reconcile = callOf(in, r)
	err := errors.Join(validate(name, in, r), options.validate(typed[T]{in}), refused, sweepKnown(c, in, r))
	if err == nil {
		c.owners, err = ownersFor(typed[T]{in}, options.Triggers)
	}
	if err != nil {
		return nil, fmt.Errorf("making controller %q: %w", name, err)
	}
	c.loops.manager = options.FieldManager
	c.sources = sourcesOf(typed[T]{in}, options.Triggers)
	c.fresh = &freshness{queue: c.queue, deadline: options.FreshnessDeadline, sources: c.sources, onSeen: c.histories.seen}
	c.primary.kind = in.Kind()
	c.primary.attach = func() func() { return attachPrimary(c, in) }
	c.primary.has = func(key Key) bool { _, ok := in.Get(key); return ok }
	c.primary.inScope = in.InScope
	c.primary.keys = func() []Key {
		cached := in.Snapshot()
		keys := make([]Key, 0, cached.Len())
		for object := range cached.All() {
			keys = append(keys, keyOf(object))
		}
		return keys
	}
	return c, nil
}

// validate returns what is wrong with the arguments of New.
func validate[T informer.Object](name string, in *informer.Informer[T], r Reconciler[T]) error {
	var errs []error
	if name == "" {
		errs = append(errs, errors.New("name is empty: it stands in logs and metrics and is the field manager"))
	}
	if in == nil {
		errs = append(errs, errors.New("informer is nil: make one with informer.For"))
	}
	if v := reflect.ValueOf(r); !v.IsValid() || (v.Kind() == reflect.Func || v.Kind() == reflect.Pointer) && v.IsNil() {
		errs = append(errs, errors.New("reconciler is nil"))
	}
	return errors.Join(errs...)
}

// Name returns the controller's name, which is that of its queue and the logger.
func (c *Controller) Name() string { return c.name }

// QueueStats returns counts of the controller's queue since it was made, and how
// many keys it holds now.
func (c *Controller) QueueStats() queue.Stats { return c.queue.Stats() }

// Enqueue reconciles keys soon, whether or not they have an object: for tests,
// command lines and debug pages. It never blocks; see [External] for sources of
// keys. Keys added before Run wait for it, those added afterwards are ignored.
// With Options.Shards, keys of shards that this replica does not have are dropped.
//
// A key that waits already is reconciled once, and one that is being reconciled is
// reconciled again afterwards. The back-off of a failed key ends.
func (c *Controller) Enqueue(keys ...Key) {
	for _, key := range keys {
		c.enqueue(key, "enqueue")
	}
}

// enqueue adds key at once, as a change does.
func (c *Controller) enqueue(key Key, trigger string) {
	c.queue.AddWithOptions(key, queue.AddOptions{ResetBackoff: true, Cause: queue.Cause{
		Trigger: trigger, Type: "enqueued", Namespace: key.Namespace, Name: key.Name,
	}})
}

// enqueueBehind adds key behind all other work.
func (c *Controller) enqueueBehind(key Key, trigger, causeType string, after time.Duration) {
	c.queue.AddWithOptions(key, queue.AddOptions{Lane: queue.Background, After: after, Cause: queue.Cause{
		Trigger: trigger, Type: causeType, Namespace: key.Namespace, Name: key.Name,
	}})
}

// Sweep returns the sweep of Options.Known: Ready reports whether it works, Stats
// what it has found, and Confirm lets one exceed the safety limit. It is nil
// without Options.Known. The controller runs it; do not.
func (c *Controller) Sweep() *names.Sweep {
	if c.orphans == nil {
		return nil
	}
	return c.orphans.sweep
}
