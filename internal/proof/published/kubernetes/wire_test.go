package kubernetes_test

import (
	"context"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/statefulset"

	"github.com/homeostat/homeostat/internal/proof/published"
)

func replicaSets(
	ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory,
) ([]published.Loop, error) {
	rs := replicaset.NewReplicaSetController(ctx, f.Apps().V1().ReplicaSets(), f.Core().V1().Pods(), c,
		replicaset.BurstReplicas)
	return []published.Loop{func(ctx context.Context) { rs.Run(ctx, 2) }}, nil
}

func deployments(
	ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory,
) ([]published.Loop, error) {
	sets, _ := replicaSets(ctx, c, f)
	d, err := deployment.NewDeploymentController(ctx, f.Apps().V1().Deployments(), f.Apps().V1().ReplicaSets(),
		f.Core().V1().Pods(), c)
	return append(sets, func(ctx context.Context) { d.Run(ctx, 2) }), err
}

func statefulSets(
	ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory,
) ([]published.Loop, error) {
	s := statefulset.NewStatefulSetController(ctx, f.Core().V1().Pods(), f.Apps().V1().StatefulSets(),
		f.Core().V1().PersistentVolumeClaims(), f.Apps().V1().ControllerRevisions(), c)
	return []published.Loop{func(ctx context.Context) { s.Run(ctx, 2) }}, nil
}

func daemonSets(
	ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory,
) ([]published.Loop, error) {
	d, err := daemon.NewDaemonSetsController(ctx, f.Apps().V1().DaemonSets(), f.Apps().V1().ControllerRevisions(),
		f.Core().V1().Pods(), f.Core().V1().Nodes(), c, flowcontrol.NewBackOff(time.Second, 15*time.Minute))
	return []published.Loop{func(ctx context.Context) { d.Run(ctx, 2) }}, err
}

func endpointSlices(
	ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory,
) ([]published.Loop, error) {
	e := endpointslice.NewController(ctx, f.Core().V1().Pods(), f.Core().V1().Services(), f.Core().V1().Nodes(),
		f.Discovery().V1().EndpointSlices(), 100, c, 0)
	return []published.Loop{func(ctx context.Context) { e.Run(ctx, 5) }}, nil
}
