package reconcile

import (
	"context"
	"fmt"
	"runtime/debug"

	corev1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
)

// How many events of a controller are passed on.
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

// limitedRecorder is an events.EventRecorder with a token bucket.
type limitedRecorder struct {
	recorder events.EventRecorder
	limit    flowcontrol.PassiveRateLimiter
}

// Eventf passes the event on, or drops it.
func (l *limitedRecorder) Eventf(
	regarding, related k8sruntime.Object, eventtype, reason, action, note string, args ...any,
) {
	if l.limit.TryAccept() {
		l.recorder.Eventf(regarding, related, eventtype, reason, action, note, args...)
	}
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
