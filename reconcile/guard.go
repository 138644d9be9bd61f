package reconcile

import (
	"context"
	"fmt"
	"runtime/debug"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
)

// guardedGroup returns Options.Group without its panics: keys that it panics on
// are one group. It returns nil if there is none.
func (c *Controller) guardedGroup() func(Key) string {
	if c.options.Group == nil {
		return nil
	}
	return func(key Key) (group string) {
		defer func() {
			if r := recover(); r != nil {
				group = ""
				c.logPanic(r, "Options.Group panicked; the key has no group", key)
			}
		}()
		return c.options.Group(key)
	}
}

// slot returns the slot of key, or -1, which no replica has, if Shards.Slot
// panics.
func (c *Controller) slot(key Key) (slot int) {
	defer func() {
		if r := recover(); r != nil {
			slot = -1
			c.logPanic(r, "Shards.Slot panicked; no replica reconciles the key", key)
		}
	}()
	return c.options.Shards.Slot(key)
}

const (
	eventsPerSecond = 5   // in the long run
	eventBurst      = 100 // at once
)

// limitEvents returns a recorder that passes as many events on to r as the API
// server can take, and drops the others; nil if r is. client-go's recorder merges
// what repeats about one object, but starts a goroutine and a request for each
// object: a controller that warns about each of 50,000 would start 50,000.
func limitEvents(r events.EventRecorder) events.EventRecorder {
	if r == nil {
		return nil
	}
	return &limitedRecorder{r, flowcontrol.NewTokenBucketPassiveRateLimiter(eventsPerSecond, eventBurst)}
}

type limitedRecorder struct {
	recorder events.EventRecorder
	limit    flowcontrol.PassiveRateLimiter
}

// Eventf passes the event on, or drops it.
func (l *limitedRecorder) Eventf(
	regarding, related runtime.Object, eventtype, reason, action, note string, args ...any,
) {
	if l.limit.TryAccept() {
		l.recorder.Eventf(regarding, related, eventtype, reason, action, note, args...)
	}
}

// warn sends a warning about an object to Options.Events, if that is set.
func (c *Controller) warn(ctx context.Context, about runtime.Object, reason, action, format string, args ...any) {
	if c.options.Events == nil {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			klog.FromContext(ctx).Error(fmt.Errorf("panic: %v\n%s", r, debug.Stack()), "Options.Events panicked")
		}
	}()
	c.options.Events.Eventf(about, nil, corev1.EventTypeWarning, reason, action, format, args...)
}

// logPanic counts a panic about key, and logs every one that doubles their
// number, since each event of the key leads to one.
func (c *Controller) logPanic(r any, message string, key Key) {
	if n := c.stats.panics.Add(1); n&(n-1) == 0 {
		klog.Background().Error(fmt.Errorf("panic: %v\n%s", r, debug.Stack()), message,
			"controller", c.name, "key", key.String())
	}
}
