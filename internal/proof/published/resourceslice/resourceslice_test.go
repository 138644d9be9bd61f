package resourceslice_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/homeostat/homeostat/internal/proof/published"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

const driver, node = "gpu.example.com", "n"

// known lists the findings of both versions: a restart with stale caches
// publishes the slice again, under a new name. It is chance which of the two is
// deleted once both are seen: the cache lists them in the order of a map.
var known = []string{"caches that begin"}

// late is a queue whose timers fire a little late, as timers of real clocks do.
// Without it, the controller would wait until a time to live has passed, and
// find each time that it has just not passed.
type late struct {
	workqueue.TypedRateLimitingInterface[string]
}

func (q late) AddAfter(pool string, d time.Duration) {
	q.TypedRateLimitingInterface.AddAfter(pool, d+time.Millisecond)
}

// start runs the driver of a node with one device.
func start(env *reconciletest.Env) error {
	ctx := env.Context()
	c, err := resourceslice.StartController(ctx, resourceslice.Options{
		DriverName: driver, KubeClient: env.Client(),
		Queue: late{workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())},
		Owner: &resourceslice.Owner{APIVersion: "v1", Kind: "Node", Name: node},
		Resources: &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{
			node: {Slices: []resourceslice.Slice{{Devices: []resourceapi.Device{{Name: "gpu-0"}}}}},
		}},
	})
	if err != nil {
		return err
	}
	<-ctx.Done()
	c.Stop()
	return nil
}

// The driver has been upgraded: it has one device fewer than are published.
// Then the kubelet restarts.
func TestSliceThatIsDeletedSoonAfterItsUpdate(t *testing.T) {
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: node, UID: "n-uid", Controller: new(true)}
	(&published.Bug{
		Controller: resourceslice.StartController, Fixed: "v0.37.0", // kubernetes/kubernetes#140063
		Options: reconciletest.Options{KnownFindings: known},
		Case: &reconciletest.Case{
			Run: start,
			Objects: []runtime.Object{
				&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: "n-uid"}},
				&resourceapi.ResourceSlice{
					ObjectMeta: metav1.ObjectMeta{
						Name: "00000-" + driver + "-" + node + "-bcdfg", GenerateName: "00000-" + driver + "-" + node + "-",
						OwnerReferences: []metav1.OwnerReference{owner},
					},
					Spec: resourceapi.ResourceSliceSpec{
						Driver: driver, NodeName: new(node),
						Pool:    resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1},
						Devices: []resourceapi.Device{{Name: "gpu-0"}, {Name: "gpu-1"}},
					},
				},
			},
			Workload: []reconciletest.Step{{
				Name: "the kubelet restarts and deletes the slices of its node",
				Do: func(ctx context.Context, w *reconciletest.World) error {
					return w.Client().ResourceV1().ResourceSlices().DeleteCollection(ctx, metav1.DeleteOptions{},
						metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorNodeName + "=" + node})
				},
			}},
			Unwatched: []string{"nodes"},
		},
		Oracle: "state", Says: "- resourceslices.*= there",
	}).Told(t)
}
