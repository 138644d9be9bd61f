package reconcile

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// The defaults of Options.
const (
	defaultWorkers           = 4
	defaultReconcileTimeout  = 2 * time.Minute
	defaultGrace             = 30 * time.Second
	defaultFreshnessDeadline = 10 * time.Second
)

// Leader elects one of several replicas. It may also implement inspect.Elector,
// inspect.LeaseNamer and inspect.Warner, to appear in status and metrics.
type Leader interface {
	// Run calls fn while this replica leads, each time with a context that ends
	// with the leadership. It returns when ctx has ended and fn has returned.
	//
	// Run returns an error only if this replica can never lead.
	// [Controller.Run] then returns that error as well.
	Run(ctx context.Context, fn func(ctx context.Context) error) error
}

// Shards divides keys into slots and assigns the slots to the replicas, such as
// a shard.Shards. It may also implement inspect.Slots, inspect.Elector,
// inspect.LeaseNamer and inspect.Warner, to appear in status and metrics.
//
// The Pods of a StatefulSet could divide the keys by their ordinals:
//
//	func (o ordinal) Slot(key types.NamespacedName) int { return hash(key) % o.replicas }
//
//	func (o ordinal) Run(ctx context.Context, fn func(ctx context.Context, slot int) error) error {
//		return fn(ctx, o.replica)
//	}
//
// But then nothing replaces a Pod that hangs, and nothing refuses the last
// writes of a Pod that was deleted by force.
type Shards interface {
	// Run calls fn for each slot that this replica gets, until ctx ends. Each
	// call has its own goroutine, and a context that ends when the slot must be
	// released. fn must return once no reconcile of the slot is running. No
	// other replica gets the slot before that if the context's cause has a
	// method Draining() bool that reports true, such as shard.ErrMoved;
	// otherwise another replica may already have the slot. Run returns after
	// the last call of fn.
	Run(ctx context.Context, fn func(ctx context.Context, slot int) error) error
	// Slot returns the slot of a key, from 0. It must be the same in all
	// replicas while Run is running. The only exception is that it may change
	// on a replica while fn is running there for neither the old nor the new
	// slot. Slot is called from many goroutines, and must not block.
	Slot(key types.NamespacedName) int
}

// Options are the options of a [Controller]. Nil and zero fields mean the
// defaults. [New] copies them: several controllers may share them, except for
// Shards.
type Options struct {
	// Triggers watch the other kinds that the reconciler reads and, above all,
	// kinds that it writes. Their informers must read from the same cluster.
	// Defaults to none.
	Triggers []Trigger

	// Leader, such as a leader.Elector, allows reconciles only while this
	// replica leads. The caches fill before that, so that a standby takes over
	// at once. When the leadership is lost, the contexts of reconciles in
	// flight are cancelled at once, without Grace. Their cause is the cause of
	// the leader's context, such as leader.ErrLost. The controller then waits
	// until it leads again. Informers must be able to wait until they are as
	// new as the server (see informer.Informer.WaitForLatest). Informers of
	// clientgo.Wrap cannot do that. Defaults to no election.
	Leader Leader

	// Shards, such as a shard.Shards, divides the keys among the replicas. All
	// keys of a shard that this replica gets are reconciled, after the caches
	// have seen what its last owner wrote; a shard that moves away is drained.
	// Sweeps of Known, and their safety limit, cover only the names of this
	// replica's shards. A replica without a shard is a standby. Each controller
	// needs its own Shards. Defaults to none.
	Shards Shards

	// Optional lets the process be ready before the caches of this controller are
	// filled. While a CustomResourceDefinition is not installed, or a cluster does
	// not answer, the controller waits, and the others work. The controller starts
	// by itself as soon as its caches are filled, without a restart. Until then,
	// /readyz names it and still answers 200. For example, a controller of
	// Gateways is optional in a program that also works in clusters without them.
	// Defaults to false: the process is not ready before every cache is filled.
	Optional bool

	// Workers is the number of keys that may be reconciled at once. If there are
	// several workers, at most half of them reconcile keys whose last reconcile
	// failed after more than ten seconds, or had not ended at its timeout. For
	// example, the outside system of one tenant does not answer, and the other
	// tenants need free workers. Defaults to 4.
	Workers int
	// ReconcileTimeout is how long a reconcile, or a call of a mapper, may take
	// before its context is cancelled with [ErrReconcileTimeout]. Defaults to
	// two minutes.
	ReconcileTimeout time.Duration
	// Grace is how long reconciles in flight may continue after the stop before
	// their context is cancelled. Set the terminationGracePeriodSeconds of the
	// Pod to a longer time, such as 60 seconds. Otherwise the process is killed
	// before it has stopped. Defaults to 30 seconds.
	Grace time.Duration

	// Resync is the period within which every cached key is reconciled once, even
	// if its object has not changed. These reconciles are spread evenly over the
	// period, wait for all other work, and use the cache without listing again.
	// Prefer a Trigger, which reacts sooner; use Resync if the outside world
	// cannot be watched. Defaults to no resync.
	Resync time.Duration

	// Known lists the names that an outside system keeps. They are compared
	// with the cache at the start and periodically; a name without an object is
	// reconciled as a deleted object. Defaults to none.
	Known names.Lister
	// Sweep sets the period, the scope and the safety limit of the sweeps. A sweep
	// compares the names of Known with the cache. Defaults to the defaults of
	// [names.Options].
	Sweep *names.Options

	// FreshnessDeadline is how long a key is held for the caches to see what
	// its last reconcile wrote. After that it is reconciled anyway, with a log
	// line. Defaults to ten seconds.
	FreshnessDeadline time.Duration

	// Backoff limits the random delay before a key whose reconcile failed is
	// retried. By default the delay is at most 100 ms after the first failure,
	// and the limit doubles with each failure, up to five minutes.
	Backoff queue.Backoff
	// MinInterval is the minimum time between the starts of two reconciles of one
	// key, whether a change, a retry or [After] leads to the second. Defaults to
	// no minimum.
	MinInterval time.Duration
	// Group returns the group of a key, such as its namespace. Groups are
	// served in turn. So a group of 50,000 objects cannot keep the others
	// waiting. It must always return the same group for the same key, and may
	// be called from any goroutine.
	//
	//	Group: func(key reconcile.Key) string { return key.Namespace },
	//
	// Defaults to one group for all.
	Group func(Key) string

	// FieldManager is the default field manager of package patch during a
	// reconcile, at most 128 bytes long. Defaults to the controller's name.
	FieldManager string

	// Events receives a warning when writes to an object make no progress (see
	// docs/hot-loops.md), when a permission has been missing for a minute, and
	// when a sweep of Known was refused. It receives at most 100 at once, and
	// five a second in the long run. The log has all of them. Defaults to the
	// log alone.
	Events events.EventRecorder

	// Around is called at the start of each reconcile, with its context. It
	// returns a context for the reconciler, derived from the given one, and a
	// function to call at the end with the reconciler's error, for example to
	// trace it (examples/tracing). Either may be nil. If Around panics, the
	// reconcile fails. If the function panics, the panic is only logged.
	//
	// Both are called by several workers at once. The function is called when
	// the key is back in the queue, so its next reconcile may already have
	// begun. Defaults to none.
	Around func(ctx context.Context, key Key) (context.Context, func(inspect.Attempt, error))
}

// withDefaults returns a copy in which fields that are not set have their
// defaults.
func (o *Options) withDefaults(name string) Options {
	set := ptr.Deref(o, Options{})
	set.Workers = cmp.Or(set.Workers, defaultWorkers)
	set.ReconcileTimeout = cmp.Or(set.ReconcileTimeout, defaultReconcileTimeout)
	set.Grace = cmp.Or(set.Grace, defaultGrace)
	set.FreshnessDeadline = cmp.Or(set.FreshnessDeadline, defaultFreshnessDeadline)
	set.FieldManager = cmp.Or(set.FieldManager, name)
	set.Events = limitEvents(set.Events)
	return set
}
