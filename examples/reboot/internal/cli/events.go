package cli

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/examples/reboot/api"
)

// Events returns a recorder that sends events to the server until stop is called.
func Events(
	ctx context.Context, config *rest.Config, component string,
) (r events.EventRecorder, stop func(), err error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client for events: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, nil, fmt.Errorf("making a scheme for events: %w", err)
	}
	if err := api.AddToScheme(scheme); err != nil {
		return nil, nil, fmt.Errorf("making a scheme for events: %w", err)
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		cancel()
		return nil, nil, fmt.Errorf("starting to send events: %w", err)
	}
	stop = func() {
		broadcaster.Shutdown()
		cancel()
	}
	return broadcaster.NewRecorder(scheme, component), stop, nil
}
