package reconcile

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
)

// What a LimitedRecorder passes on.
const (
	EventsPerSecond = 5   // in the long run
	EventBurst      = 100 // at once
)

// A LimitedRecorder passes on as many events as the API server can take, and
// counts the others. client-go's recorder merges what repeats about one
// object, but starts a goroutine and a request for each object: a controller
// that warns about each of 50,000 starts 50,000.
//
// It is an events.EventRecorder, and safe for concurrent use.
type LimitedRecorder struct {
	recorder events.EventRecorder
	limit    flowcontrol.PassiveRateLimiter
	dropped  atomic.Uint64
}

// LimitEvents returns a recorder that passes on to r at most [EventBurst] events
// at once, and [EventsPerSecond] in the long run. Log what must not be lost.
func LimitEvents(r events.EventRecorder) *LimitedRecorder {
	return &LimitedRecorder{
		recorder: r, limit: flowcontrol.NewTokenBucketPassiveRateLimiter(EventsPerSecond, EventBurst),
	}
}

// Eventf passes the event on, or counts it.
func (l *LimitedRecorder) Eventf(
	regarding, related runtime.Object, eventtype, reason, action, note string, args ...any,
) {
	if !l.limit.TryAccept() {
		l.dropped.Add(1)
		return
	}
	l.recorder.Eventf(regarding, related, eventtype, reason, action, note, args...)
}

// Dropped returns how many events were not passed on.
func (l *LimitedRecorder) Dropped() uint64 { return l.dropped.Load() }
