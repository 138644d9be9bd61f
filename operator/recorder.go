package operator

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/cluster"
)

// Recorder returns a recorder that sends Events to the cluster, reported by
// component. stop ends the recorder; Events not yet sent are dropped.
func Recorder(
	ctx context.Context, c *cluster.Cluster, component string,
) (r events.EventRecorder, stop func(), err error) {
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: c.Client().EventsV1()})
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		cancel()
		return nil, nil, fmt.Errorf("starting to send events: %w", err)
	}
	return broadcaster.NewRecorder(scheme.Scheme, component), func() {
		broadcaster.Shutdown()
		cancel()
	}, nil
}
