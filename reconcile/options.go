package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// What the zero Options mean.
const (
	defaultWorkers           = 4
	defaultReconcileTimeout  = 2 * time.Minute
	defaultGrace             = 30 * time.Second
	defaultFreshnessDeadline = 10 * time.Second
)

// A Leader calls fn while this replica leads, each time with a context that
// ends with the leadership. It returns when ctx has ended and fn has returned. It
// may also implement inspect.Elector and inspect.LeaseNamer.
type Leader interface {
	Run(ctx context.Context, fn func(ctx context.Context) error) error
}

// Options of a [Controller]. Nil and zero fields mean the defaults.
type Options struct {
	// Triggers are the other informers to look at: what the reconciler reads
	// and, above all, what it writes. They must be of the same cluster.
	Triggers []Trigger

	// Leader, such as a leader.Elector, lets turns run only while this replica
	// leads. The caches fill before that, so that a standby takes over at once.
	// When the leadership is lost, turns in flight are cancelled with its cause
	// and without grace; the controller then waits until it leads again.
	Leader Leader

	// Shards, such as a [shard.Shards], lets each replica work on its part of
	// the keys. A part that has come is looked at whole, when the caches have
	// seen what the replica that had it wrote; one that goes is drained. Sweeps
	// of Known look at the names of this replica's part, and so does the safety limit.
	// A replica without a part is a standby. Each controller needs its own.
	Shards shard.Assignment

	// Workers is how many keys are reconciled at once; [DefaultWorkers].
	Workers int
	// ReconcileTimeout cancels the context of a turn with [ErrReconcileTimeout];
	// [DefaultReconcileTimeout].
	ReconcileTimeout time.Duration
	// Grace is how long turns in flight may go on after the stop before their
	// context is cancelled; [DefaultGrace].
	Grace time.Duration

	// Resync looks at every known key again once in each such period, spread
	// over it, behind all other work. It repairs nothing that a Trigger would
	// not have repaired earlier: use it where the outside world has no watch.
	// Zero means never.
	Resync time.Duration

	// Known lists the names that an outside system keeps. They are compared with
	// the cache at start and periodically; a name whose object is gone gets a
	// turn without an object, however it went. None by default.
	Known names.Lister
	// Sweep says how often, in which scope, and how many at once; see
	// [names.Options] for the defaults.
	Sweep *names.Options

	// FreshnessDeadline is how long a key waits for the caches to see what its
	// last turn wrote; [DefaultFreshnessDeadline]. Then it runs all the same,
	// and the log says so.
	FreshnessDeadline time.Duration

	// Backoff of keys whose turn failed. Defaults to 100 ms, doubling up to five minutes.
	Backoff queue.Backoff
	// MinInterval is the least time between two turns of one key; none.
	MinInterval time.Duration
	// Group makes groups of keys, such as namespaces, take turns, so that one of
	// 50,000 objects cannot keep the others waiting; one group by default. It
	// must always return the same for the same key, from any goroutine.
	Group func(Key) string

	// FieldManager is the default for writes of package patch during a turn;
	// the controller's name.
	FieldManager string

	// Events receives a warning when a key is slowed down because it is getting
	// nowhere, and when a sweep of Known was refused: at most 100 at once, and five
	// a second in the long run. The log has them all.
	Events events.EventRecorder

	// Around is called at the start of each reconcile, with its context. It returns a
	// context for the reconciler, made from that one, and a function that is called
	// when the reconcile has ended, for example to trace it (examples/tracing). Either
	// may be nil. If Around panics, the reconcile has failed; a panic of the function
	// is logged. The error is the reconciler's.
	Around func(ctx context.Context, key Key) (context.Context, func(inspect.Attempt, error))
}

func (o *Options) withDefaults(name string) Options {
	var set Options
	if o != nil {
		set = *o
	}
	set.Workers = cmp.Or(set.Workers, defaultWorkers)
	set.ReconcileTimeout = cmp.Or(set.ReconcileTimeout, defaultReconcileTimeout)
	set.Grace = cmp.Or(set.Grace, defaultGrace)
	set.FreshnessDeadline = cmp.Or(set.FreshnessDeadline, defaultFreshnessDeadline)
	set.FieldManager = cmp.Or(set.FieldManager, name)
	set.Events = limitEvents(set.Events)
	return set
}

// maxFieldManager is the API server's limit on the length of a field manager
// (apimachinery, metav1 validation: FieldManagerMaxLength).
const maxFieldManager = 128

// validate returns what is wrong with the options, and with the informers that
// they name; queue and names validate what is theirs.
func (o Options) validate(own source) error {
	var errs []error
	positive := func(field string, value, zero any, ok bool) {
		if !ok {
			errs = append(errs, fmt.Errorf("Options.%s is %v: must be more than %v", field, value, zero))
		}
	}
	positive("Workers", o.Workers, 0, o.Workers > 0)
	positive("ReconcileTimeout", o.ReconcileTimeout, time.Duration(0), o.ReconcileTimeout > 0)
	positive("Grace", o.Grace, time.Duration(0), o.Grace > 0)
	positive("FreshnessDeadline", o.FreshnessDeadline, time.Duration(0), o.FreshnessDeadline > 0)
	if o.Leader != nil && o.Shards != nil {
		errs = append(errs, errors.New("Options.Leader and Options.Shards are both set: one replica works, or all do"))
	}
	if o.Sweep != nil && o.Known == nil {
		errs = append(errs, errors.New("Options.Sweep is set without Options.Known: there are no names to sweep"))
	}
	if o.Resync < 0 {
		errs = append(errs, fmt.Errorf("Options.Resync is %v: must not be negative", o.Resync))
	}
	if len(o.FieldManager) > maxFieldManager {
		errs = append(errs, fmt.Errorf("Options.FieldManager is %q: the API server takes at most %d bytes",
			o.FieldManager, maxFieldManager))
	}
	for i, t := range o.Triggers {
		if err := validateTrigger(t, own); err != nil {
			errs = append(errs, fmt.Errorf("Options.Triggers[%d] %w", i, err))
		}
	}
	for _, s := range sourcesOf(own, o.Triggers) {
		errs = append(errs, s.Validate())
		if o.Shards != nil && s.Status().Wrapped {
			errs = append(errs, fmt.Errorf("Options.Shards is set, and the informer of %s is made by clientgo.Wrap: it does "+
				"not know whether its cache shows what the last owner of a shard wrote: make it with informer.For", s.Name()))
		}
	}
	return errors.Join(errs...)
}

// validateTrigger returns what is wrong with a trigger of a controller whose own
// informer is own. Informers that do not know their server, such as those of
// fakes, are not compared.
func validateTrigger(t Trigger, own source) error {
	if t == nil {
		return errors.New("is nil: use Owned, Mapped or External")
	}
	if e, ok := t.(external); ok {
		return e.validate()
	}
	s := t.source()
	if isNil(s) {
		return errors.New("has no informer: make one with informer.For")
	}
	if isNil(own) {
		return nil
	}
	if here, there := own.Status().Server, s.Status().Server; here != there && here != "" && there != "" {
		return fmt.Errorf("watches another cluster: the informer of %s reads from %s, that of the controller's own %s from %s: "+
			"versions of two clusters cannot be compared; give the other cluster a controller of its own, "+
			"which writes what it finds into an object of this one", s.Name(), there, own.Name(), here)
	}
	return nil
}
