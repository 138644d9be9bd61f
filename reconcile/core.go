package reconcile

import (
	"context"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// core is the part of a controller that does not depend on the type of its
// objects.
type core struct {
	intake
	options   Options
	primary   source // the informer of the controller's own objects
	fresh     *freshness
	crew      crew
	phase     atomic.Pointer[inspect.Phase]
	parking   parking
	lingering lingering
	listed    func() // called when the parked keys of a namespace were released; may be nil
	records          // what the status page, the log and the metrics show
}

func (c *core) enter(p inspect.Phase) { c.phase.Store(&p) }

// exists reports whether the object of key is cached, or is known to exist
// although it cannot be cached.
func (c *core) exists(key Key) bool {
	_, unreadable := c.primary.unreadable(key) // first, because the object may become readable meanwhile
	return unreadable || c.primary.cached(key) != nil
}

// elects returns the Leader or the Shards in the options, or nil if the
// controller has neither.
func (c *core) elects() any {
	if c.options.Shards != nil {
		return c.options.Shards
	}
	return c.options.Leader
}

// warn sends a warning about an object to Options.Events, if that is set.
func (c *core) warn(ctx context.Context, object k8sruntime.Object, reason, action, format string, args ...any) {
	if c.options.Events == nil {
		return
	}
	const function = "reconcile.Options.Events"
	var key Key
	if accessor, err := meta.Accessor(object); err == nil {
		key = bound.KeyOf(accessor)
	}
	if err := c.guarded(function, key, func() {
		c.options.Events.Eventf(object, nil, corev1.EventTypeWarning, reason, action, format, args...)
	}); err != nil {
		klog.FromContext(ctx).Error(err, function+" panicked")
	}
}

// takeoverDeadline bounds how long a new leader, or the new owner of a slot,
// waits for caches that hold the objects of all slots. Caches of some slots are
// filled without such a bound: after takeoverDeadline, shardCaches.watch
// reports the slots.
const takeoverDeadline = time.Minute

// takeOver waits until the caches are as new as the server is now, except for
// the namespaces that setApart returns. The previous replica may have written
// until a moment ago, but no longer writes.
//
// It gives up after a minute, with a log line, because a controller must not
// wait forever for a server that does not answer reads.
func (c *core) takeOver(ctx context.Context) {
	log := klog.FromContext(ctx)
	limited, cancel := context.WithTimeout(ctx, takeoverDeadline)
	defer cancel()
	slow := time.AfterFunc(c.options.FreshnessDeadline, func() {
		log.Info("caches may not have seen the last writes of another replica, waiting", "timeout", takeoverDeadline)
	})
	defer slow.Stop()
	apart := c.parking.setApart(c.sources)
	if err := c.sources.waitForLatest(limited, apart); err != nil && ctx.Err() == nil {
		log.Error(err, "caches may not have seen the last writes of another replica, taking over")
	}
}
