package kubernetes_test

import (
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/internal/proof/published"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/actors"
)

// explored explores a case with a kubelet.
func explored(t *testing.T, c *reconciletest.Case) *reconciletest.Report {
	t.Helper()
	c.Actors = append(c.Actors, actors.Kubelet(nil))
	r := reconciletest.Search(t, c, &reconciletest.Options{Budget: published.Budget})
	t.Logf("%d calls and %d writes without a fault; %d of %d deviations\n%s", r.Calls, r.Writes, r.Runs, r.Planned, r.Failure)
	return r
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
		Run:     published.Wire(replicaSets).Program,
		Objects: []runtime.Object{published.ReplicaSet(2)},
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
		Run: published.Wire(deployments).Program,
		Objects: []runtime.Object{&appsv1.Deployment{
			ObjectMeta: published.Meta(),
			Spec: appsv1.DeploymentSpec{
				Replicas: ptr.To[int32](2), Selector: published.Selector(), Template: published.Template(),
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
		Run: published.Wire(statefulSets).Program,
		Objects: []runtime.Object{&appsv1.StatefulSet{
			ObjectMeta: published.Meta(),
			Spec: appsv1.StatefulSetSpec{
				Replicas: ptr.To[int32](2), Selector: published.Selector(), Template: published.Template(), ServiceName: "web",
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
	r := explored(t, &reconciletest.Case{
		Run:     published.Wire(jobs).Program,
		Objects: []runtime.Object{published.Job(2, 1)},
		Actors:  []reconciletest.Actor{published.Ending()},
		Ignore:  []string{"pods metadata.name", "jobs.batch status.failed"}, // it counts Pods that others have deleted
	})
	timeTravel(t, r, "+ pods d/web-*3 = there")
}
