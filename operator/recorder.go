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
	"github.com/homeostat/homeostat/internal/suspect"
)

const (
	// drainTimeout is how long stop waits for the last Events to be sent.
	drainTimeout = 5 * time.Second
	// quietPeriod is the time without a new or completed request after which
	// all Events count as sent. It is not zero, because an Event passes through
	// several goroutines of client-go before its request begins.
	quietPeriod = 100 * time.Millisecond
)

// Recorder returns a recorder that sends Events to the cluster. component is
// the reporting controller in the Events, such as "website-operator" or
// "example.com/website". The account needs permission to create and patch
// events of events.k8s.io. The API server refuses Events that are too long, so
// a note of more than 1,024 bytes is cut and ends with "…", and a reason or an
// action is cut to 128 bytes.
//
// Events that repeat are sent as one Event with a count: Events about the same
// object with the same type, reason, action and note, at most six minutes apart.
// Ten different notes about the same object, with the same type, reason and
// action, are sent as Events of their own, and then one more each six minutes.
// Further notes are counted in one additional Event. So an object whose note
// differs in each retry has about 20 Events in an hour.
//
// The recorder r is safe for concurrent use, and does not wait for the server.
// The function stop sends the recorded Events, waits at most 5 seconds for
// them, and ends the recorder. Call it after the controllers have ended. The
// end of ctx does not end the recorder.
//
// Recorder returns an error if c is nil, if the API server would refuse the
// component, or if client-go cannot start sending.
func Recorder(
	ctx context.Context, c *cluster.Cluster, component string,
) (r events.EventRecorder, stop func(), err error) {
	if c == nil {
		return nil, nil, fmt.Errorf("starting the event recorder: %w", errNoCluster)
	}
	if reasons := validation.IsQualifiedName(component); len(reasons) > 0 {
		return nil, nil, fmt.Errorf("starting the event recorder: invalid component %q: %s", component, reasons[0])
	}
	counting := &sink{EventSink: &events.EventSinkImpl{Interface: c.Client().EventsV1()}}
	broadcaster := events.NewBroadcaster(counting)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	_, err = broadcaster.StartEventWatcher(func(runtime.Object) { counting.note(0) })
	if err == nil {
		err = broadcaster.StartRecordingToSinkWithContext(ctx)
	}
	if err != nil {
		cancel()
		return nil, nil, fmt.Errorf("starting the event recorder: %w", err)
	}
	recorder := broadcaster.NewRecorder(scheme.Scheme, component)
	return &distinguishing{EventRecorder: recorder, notes: map[topic]*topicNotes{}}, func() {
		counting.drain()
		broadcaster.Shutdown()
		cancel()
	}, nil
}

// sink sends Events, and counts the requests that are in flight.
type sink struct {
	events.EventSink

	mu       sync.Mutex // guards the fields below
	requests int        // number of requests in flight
	lastNote time.Time  // when note was last called
}

// note adds requests to the number of requests in flight. note(0) records only
// that there was an Event.
func (s *sink) note(requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests += requests
	s.lastNote = time.Now()
}

// drain waits until no Event has been sent for quietPeriod, but no longer than
// drainTimeout.
func (s *sink) drain() {
	s.note(0)
	for end := time.Now().Add(drainTimeout); time.Now().Before(end) && !s.quiet(); {
		<-time.After(quietPeriod / 10)
	}
}

func (s *sink) quiet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests == 0 && time.Since(s.lastNote) >= quietPeriod
}

// Create sends an Event, cut to the lengths that the API server accepts.
func (s *sink) Create(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	s.note(1)
	defer s.note(-1)
	got, err := s.EventSink.Create(ctx, event.Fit(unmarked(e)))
	return marked(got, e), wrapForeign(err)
}

// Patch sends the new count of a repeated Event.
func (s *sink) Patch(ctx context.Context, e *eventsv1.Event, patch []byte) (*eventsv1.Event, error) {
	s.note(1)
	defer s.note(-1)
	got, err := s.EventSink.Patch(ctx, e, patch)
	return marked(got, e), wrapForeign(err)
}

// wrapForeign returns err, wrapped if the API server has not sent it itself.
// client-go does not recognize a refusal in a wrapped error, so it sends the
// Event again.
func wrapForeign(err error) error {
	if absent.IsForeign(err) {
		return suspect.Answerf("the answer is not from the API server: %w", err)
	}
	return err
}
