package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/reference"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/internal/event"
)

// NewEnv returns an environment for tests of a Setup, with the API server of
// config. It has a Cluster, Events and its own Metrics registry, but no Leader,
// no Shards and no Clusters. Its Context is ctx. For example, each boot of a
// reconciletest.Case makes an environment from the Context and the Config of
// its Env.
//
// Unlike in a program, Eventf of Events sends the Event before it returns, so a
// test sees the Event at once and has nothing to stop. A failure is logged.
//
// NewEnv returns the errors of cluster.New.
func NewEnv(ctx context.Context, config *rest.Config) (Env, error) {
	c, err := cluster.New(config, nil)
	if err != nil {
		return Env{}, fmt.Errorf("making the environment of a test: %w", err)
	}
	return Env{Context: ctx, Cluster: c, Events: directRecorder{ctx, c.Client()}, Metrics: prometheus.NewRegistry()}, nil
}

// directRecorder is an EventRecorder that sends each Event in the goroutine
// that records it.
type directRecorder struct {
	ctx    context.Context //nolint:containedctx // the methods of an EventRecorder have no context
	client kubernetes.Interface
}

var _ events.EventRecorder = directRecorder{}

// Eventf sends an Event, and logs a failure.
func (d directRecorder) Eventf(
	regarding, related runtime.Object, eventType, reason, action, note string, args ...any,
) {
	if err := d.send(regarding, related, &eventsv1.Event{
		Type: eventType, Reason: reason, Action: action, Note: fmt.Sprintf(note, args...),
	}); err != nil {
		klog.FromContext(d.ctx).Error(err, "sending an Event failed, dropping it")
	}
}

func (d directRecorder) send(regarding, related runtime.Object, e *eventsv1.Event) error {
	ref, err := reference.GetReference(scheme.Scheme, regarding)
	if err != nil {
		return fmt.Errorf("creating a reference to the object of an Event: %w", err)
	}
	e.Regarding = *ref
	if related != nil {
		if e.Related, err = reference.GetReference(scheme.Scheme, related); err != nil {
			return fmt.Errorf("creating a reference to the related object of an Event: %w", err)
		}
	}
	e.Namespace = ref.Namespace
	if e.Namespace == "" {
		e.Namespace = corev1.NamespaceDefault
	}
	e.GenerateName = ref.Name + "-"
	e.EventTime = metav1.NewMicroTime(time.Now())
	e.ReportingController, e.ReportingInstance = "test", "test"
	_, err = d.client.EventsV1().Events(e.Namespace).Create(d.ctx, event.Fit(e), metav1.CreateOptions{})
	return err
}
