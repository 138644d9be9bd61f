package reconcile

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"

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

// Name returns the controller's name.
func (c *Controller) Name() string { return c.name }

// QueueStats returns what the controller's queue has done and holds.
func (c *Controller) QueueStats() queue.Stats { return c.queue.Stats() }

// Enqueue reconciles keys soon, whatever is known of them: for tests, command
// lines and debug pages. It never blocks; see [External] for sources of keys.
// Before Run the keys wait, and afterwards they are ignored. With Options.Shards
// those of shards that this replica does not have are dropped.
func (c *Controller) Enqueue(keys ...Key) {
	for _, key := range keys {
		c.enqueueKey(key, "enqueue")
	}
}

func (c *Controller) enqueueKey(key Key, trigger string) {
	c.queue.AddWithOptions(key, queue.AddOptions{ResetBackoff: true, Cause: queue.Cause{
		Trigger: trigger, Type: "enqueued", Namespace: key.Namespace, Name: key.Name,
	}})
}

// Sweep returns the sweep of Options.Known: its Ready, its Stats, and its
// Confirm. It is nil without Options.Known.
func (c *Controller) Sweep() *names.Sweep { return c.sweep }
