package operator

import (
	"context"
	"fmt"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/event"
)

const (
	// lastEventsWithin is how long the end of a recorder waits for its last Events.
	lastEventsWithin = 5 * time.Second
	// quietAfter is how long nothing is to be sent until all is taken for sent: an
	// Event passes through several goroutines of client-go.
	quietAfter = 100 * time.Millisecond
)

// Recorder returns a recorder that sends Events to the cluster, reported by
// component, which is a name such as "website-operator" or
// "example.com/website". It needs permission to create and patch events of
// events.k8s.io. A note of more than 1,024 bytes is cut and ends with "…"; a
// reason or an action has at most 128 bytes. Without that the API server would
// refuse the Event, and it would be lost.
//
// Returns: r is safe for concurrent use, and does not wait for the server. stop
// sends the Events recorded so far, for at most 5 seconds, and ends the recorder;
// the end of ctx does not. Call it after the controllers have ended.
//
// Errors: c is nil; a component that the API server does not take; client-go
// could not start sending.
func Recorder(
	ctx context.Context, c *cluster.Cluster, component string,
) (r events.EventRecorder, stop func(), err error) {
	if c == nil {
		return nil, nil, fmt.Errorf("starting to send events: %w", errNoCluster)
	}
	if faults := validation.IsQualifiedName(component); len(faults) > 0 {
		return nil, nil, fmt.Errorf("starting to send events: the component is %q: %s", component, faults[0])
	}
	out := &sink{EventSink: &events.EventSinkImpl{Interface: c.Client().EventsV1()}}
	broadcaster := events.NewBroadcaster(out)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	_, err = broadcaster.StartEventWatcher(func(runtime.Object) { out.note(0) })
	if err == nil {
		err = broadcaster.StartRecordingToSinkWithContext(ctx)
	}
	if err != nil {
		cancel()
		return nil, nil, fmt.Errorf("starting to send events: %w", err)
	}
	return broadcaster.NewRecorder(scheme.Scheme, component), func() {
		out.drain()
		broadcaster.Shutdown()
		cancel()
	}, nil
}

// sink is where Events are sent to. It knows when nothing is being sent.
type sink struct {
	events.EventSink

	mu       sync.Mutex // guards the following
	requests int        // under way
	last     time.Time  // sign of an Event
}

// note counts requests that begin or end. Zero is a sign of an Event alone.
func (s *sink) note(requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests += requests
	s.last = time.Now()
}

// drain waits until nothing has been sent for a while, within a bound.
func (s *sink) drain() {
	s.note(0)
	for end := time.Now().Add(lastEventsWithin); time.Now().Before(end) && !s.quiet(); {
		<-time.After(quietAfter / 10)
	}
}

func (s *sink) quiet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests == 0 && time.Since(s.last) >= quietAfter
}

// Create sends an Event, cut to what the API server takes.
func (s *sink) Create(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	s.note(1)
	defer s.note(-1)
	got, err := s.EventSink.Create(ctx, event.Fit(e))
	return got, unlessForeign(err)
}

// Patch sends how often an Event has been recorded.
func (s *sink) Patch(ctx context.Context, e *eventsv1.Event, patch []byte) (*eventsv1.Event, error) {
	s.note(1)
	defer s.note(-1)
	got, err := s.EventSink.Patch(ctx, e, patch)
	return got, unlessForeign(err)
}

// unlessForeign returns err so that client-go does not take it for a refusal of
// the Event if it is not the API server's own answer: client-go then sends the
// Event again.
func unlessForeign(err error) error {
	if absent.IsForeign(err) {
		return fmt.Errorf("the answer is not the API server's: a proxy or gateway has sent it: %w", err)
	}
	return err
}
