package kubernetes_test

import (
	"context"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/statefulset"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

func replicaSets(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) ([]loop, error) {
	rs := replicaset.NewReplicaSetController(ctx, f.Apps().V1().ReplicaSets(), f.Core().V1().Pods(), c,
		replicaset.BurstReplicas)
	return []loop{func(ctx context.Context) { rs.Run(ctx, 2) }}, nil
}

func deployments(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) ([]loop, error) {
	sets, _ := replicaSets(ctx, c, f)
	d, err := deployment.NewDeploymentController(ctx, f.Apps().V1().Deployments(), f.Apps().V1().ReplicaSets(),
		f.Core().V1().Pods(), c)
	return append(sets, func(ctx context.Context) { d.Run(ctx, 2) }), err
}

func statefulSets(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) ([]loop, error) {
	s := statefulset.NewStatefulSetController(ctx, f.Core().V1().Pods(), f.Apps().V1().StatefulSets(),
		f.Core().V1().PersistentVolumeClaims(), f.Apps().V1().ControllerRevisions(), c)
	return []loop{func(ctx context.Context) { s.Run(ctx, 2) }}, nil
}

func jobs(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) ([]loop, error) {
	j, err := job.NewController(ctx, c, f.Core().V1().Pods(), f.Batch().V1().Jobs(), nil, nil)
	return []loop{func(ctx context.Context) { j.Run(ctx, 2) }}, err
}

// timeTravel wants what all four are accused of: after a restart whose first list is of the past they do to the cluster
// of now what the past would have wanted. It is the first finding, so that nothing else was found before.
func timeTravel(t *testing.T, r *reconciletest.Report, want string) {
	t.Helper()
	gomega.NewWithT(t).Expect(r.Failure).To(gomega.And(
		gomega.MatchRegexp(`^a restart at rest \d, with caches that begin \d+ writes ago: `), gomega.ContainSubstring(want)))
}

// After a restart its two caches may begin at different times of the past: it then deletes a Pod that the ReplicaSet
// of now wants (kubernetes/kubernetes#59848 is of that kind). Its check of consistency knows only its own writes since
// the restart.
func TestReplicaSet(t *testing.T) {
	r := explored(t, &reconciletest.Case{
		Run: wired(replicaSets),
		Objects: []runtime.Object{&appsv1.ReplicaSet{
			ObjectMeta: meta(),
			Spec:       appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](2), Selector: selector(), Template: template()},
		}},
		Workload: []reconciletest.Step{
			reconciletest.Patch("replicasets.apps", "d/web", `{"spec":{"replicas":3}}`),
			reconciletest.Patch("replicasets.apps", "d/web", `{"spec":{"replicas":1}}`),
		},
		Ignore: []string{"pods metadata.name"},
	})
	timeTravel(t, r, "a restart with caches of the past deletes pods d/web-")
}

// With the ReplicaSet controller beside it, which has the fault.
func TestDeployment(t *testing.T) {
	r := explored(t, &reconciletest.Case{
		Run: wired(deployments),
		Objects: []runtime.Object{&appsv1.Deployment{
			ObjectMeta: meta(),
			Spec: appsv1.DeploymentSpec{
				Replicas: ptr.To[int32](2), Selector: selector(), Template: template(),
			},
		}},
		Workload: []reconciletest.Step{
			reconciletest.Patch("deployments.apps", "d/web",
				`{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":5}}}}`),
		},
		Ignore: []string{"pods metadata.name"},
	})
	timeTravel(t, r, "a restart with caches of the past deletes pods d/web-")
}

// As with ReplicaSets.
func TestStatefulSet(t *testing.T) {
	r := explored(t, &reconciletest.Case{
		Run: wired(statefulSets),
		Objects: []runtime.Object{&appsv1.StatefulSet{
			ObjectMeta: meta(),
			Spec: appsv1.StatefulSetSpec{
				Replicas: ptr.To[int32](2), Selector: selector(), Template: template(), ServiceName: "web",
			},
		}},
		Workload: []reconciletest.Step{
			reconciletest.Patch("statefulsets.apps", "d/web", `{"spec":{"replicas":3}}`),
			reconciletest.Patch("statefulsets.apps", "d/web", `{"spec":{"replicas":1}}`),
		},
		Ignore: []string{"controllerrevisions.apps *"}, // nothing brings a deleted one back: there is no handler for them
	})
	timeTravel(t, r, "a restart with caches of the past deletes pods d/web-2")
}

// It runs a Pod more than was wanted; what it counts in the status is right.
func TestJob(t *testing.T) {
	pod := template()
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	r := explored(t, &reconciletest.Case{
		Run: wired(jobs),
		Objects: []runtime.Object{&batchv1.Job{
			ObjectMeta: meta(),
			Spec: batchv1.JobSpec{
				Completions: ptr.To[int32](2), Parallelism: ptr.To[int32](1), Template: pod,
			},
		}},
		Actors: []reconciletest.Actor{{
			Name:    "containers that end",
			Enabled: func(w *reconciletest.World) bool { return running(w) != nil },
			Do: func(w *reconciletest.World) {
				pod := running(w)
				pod.Status.Phase = corev1.PodSucceeded
				// after an error it is enabled still
				_, _ = w.Client().CoreV1().Pods("d").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
			},
		}},
		Ignore: []string{"pods metadata.name", "jobs.batch status.failed"}, // it counts Pods that others have deleted
	})
	timeTravel(t, r, "+ pods d/web-*3 = there")
}

// running returns a Pod that runs; nil: there is none.
func running(w *reconciletest.World) *corev1.Pod {
	pods, err := reconciletest.List[corev1.Pod](w, "pods")
	if err != nil {
		return nil
	}
	for i := range pods {
		if pods[i].Status.Phase == corev1.PodRunning {
			return &pods[i]
		}
	}
	return nil
}
