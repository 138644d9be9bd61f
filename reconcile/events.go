package reconcile

import (
	"fmt"

	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/event"
)

// The limit on the events of a controller that are passed on to the server.
const (
	eventsPerSecond = 5   // the average number of Events per second
	eventBurst      = 100 // the number of Events in a burst
)

// limitEvents returns a recorder that passes events on to r at a rate that the
// API server can handle, and drops the others. It returns r itself if r is nil
// or contains a nil pointer. client-go's recorder merges repeated events of one
// object, but starts a goroutine and a request for each object: for example,
// 50,000 of them for a controller that warns about 50,000 objects.
func limitEvents(r events.EventRecorder) events.EventRecorder {
	if bound.IsNil(r) {
		return r
	}
	return &limitedRecorder{r, flowcontrol.NewTokenBucketPassiveRateLimiter(eventsPerSecond, eventBurst)}
}

// limitedRecorder is an events.EventRecorder with a token bucket.
type limitedRecorder struct {
	recorder events.EventRecorder
	limit    flowcontrol.PassiveRateLimiter
}

// Eventf passes the event on, with its note shortened to the length that every
// server accepts. It drops the event if there were too many others.
func (l *limitedRecorder) Eventf(
	regarding, related k8sruntime.Object, eventtype, reason, action, note string, args ...any,
) {
	if l.limit.TryAccept() {
		l.recorder.Eventf(regarding, related, eventtype, reason, action, "%s", event.Note(fmt.Sprintf(note, args...)))
	}
}
