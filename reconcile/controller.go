package reconcile

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile/inspect"
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

// enter changes the phase.
func (c *Controller) enter(p inspect.Phase) { c.phase.Store(&p) }

// elects returns the Leader or the Shards, or nil.
func (c *Controller) elects() any {
	if c.options.Shards != nil {
		return c.options.Shards
	}
	if c.options.Leader != nil {
		return c.options.Leader
	}
	return nil
}

// warn sends a warning about an object to Options.Events, if that is set.
func (c *Controller) warn(ctx context.Context, about k8sruntime.Object, reason, action, format string, args ...any) {
	if c.options.Events == nil {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			klog.FromContext(ctx).Error(fmt.Errorf("panic: %v\n%s", r, debug.Stack()), "reconcile.Options.Events panicked")
		}
	}()
	c.options.Events.Eventf(about, nil, corev1.EventTypeWarning, reason, action, format, args...)
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

// takeoverDeadline bounds how long a new leader, or the new owner of a slot, waits
// for its caches.
const takeoverDeadline = time.Minute

// takeOver waits until the caches are as new as the server is now. The replica
// before this one may have written until a moment ago, but does so no longer.
//
// It gives up after a minute, with a log line: a server that does not answer
// reads for that long must not keep the controller from its work forever.
func (c *Controller) takeOver(ctx context.Context) {
	log := klog.FromContext(ctx)
	limited, cancel := context.WithTimeout(ctx, takeoverDeadline)
	defer cancel()
	slow := time.AfterFunc(c.options.FreshnessDeadline, func() {
		log.Info("caches may not have seen the last writes of another replica, waiting", "timeout", takeoverDeadline)
	})
	defer slow.Stop()
	if err := c.sources.waitForLatest(limited); err != nil && ctx.Err() == nil {
		log.Error(err, "caches may not have seen the last writes of another replica, taking over")
	}
}
