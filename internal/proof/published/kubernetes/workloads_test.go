package kubernetes_test

import (
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/statefulset"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/internal/proof/published"
	"github.com/homeostat/homeostat/internal/proof/published/results"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/actors"
)

// explored explores a case with a kubelet until something is found, and then to
// the end of the plan, except for restarts with stale caches and other known
// findings: nothing more may be found.
func explored(t *testing.T, controller any, c *reconciletest.Case, o reconciletest.Options) *reconciletest.Report {
	t.Helper()
	c.Actors = append(c.Actors, actors.Kubelet(nil))
	o.Budget = published.Budget
	r := results.Search(t, controller, c, &o)
	o.KnownFindings = append(o.KnownFindings, past...)
	t.Run("ToTheEnd", func(t *testing.T) {
		rest := results.Search(t, controller, c, &o)
		g := gomega.NewWithT(t)
		g.Expect(rest.Failure).To(gomega.BeEmpty())
		g.Expect(rest.Covered()).To(gomega.BeTrue())
	})
	return r
}

// timeTravel expects the finding that all four have: after a restart with a
// stale first list they act on the present cluster by the desired state of the
// past. It is the first finding, so nothing else was found before.
func timeTravel(t *testing.T, r *reconciletest.Report, want string) {
	t.Helper()
	gomega.NewWithT(t).Expect(r.Failure).To(gomega.And(
		gomega.MatchRegexp(`^a restart at rest \d, with caches that begin \d+ writes ago: `), gomega.ContainSubstring(want)))
}

// After a restart its two caches may begin at different times of the past: it
// then deletes a Pod that the ReplicaSet of now wants
// (kubernetes/kubernetes#59848 is of that kind). Its check of consistency knows
// only its own writes since the restart.
func TestReplicaSet(t *testing.T) {
	r := explored(t, replicaset.NewReplicaSetController, &reconciletest.Case{
		Run:     published.Wire(replicaSets).Program,
		Objects: []runtime.Object{published.ReplicaSet(2)},
		Workload: []reconciletest.Step{
			reconciletest.Patch("replicasets.apps", "d/web", `{"spec":{"replicas":3}}`),
			reconciletest.Patch("replicasets.apps", "d/web", `{"spec":{"replicas":1}}`),
		},
		Ignore: []string{"pods metadata.name"},
	}, reconciletest.Options{})
	timeTravel(t, r, "a restart with old caches deletes pods d/web-")
}

// With the ReplicaSet controller beside it, which has the fault. The ReplicaSet
// of the old template is history: there is none if the template was replaced
// before it was seen, and none is made again. After a crash while its watch is
// slow, the message of its condition Progressing may name the old one.
func TestDeployment(t *testing.T) {
	r := explored(t, deployment.NewDeploymentController, &reconciletest.Case{
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
	}, reconciletest.Options{KnownFindings: []string{
		"- replicasets.apps d/web-5b7df8b546 = there", "status.conditions[Progressing].message = ReplicaSet",
		"metadata.annotations.deployment.kubernetes.io/revision", // and revision-history
	}})
	timeTravel(t, r, "a restart with old caches deletes pods d/web-")
}

// As with ReplicaSets.
func TestStatefulSet(t *testing.T) {
	r := explored(t, statefulset.NewStatefulSetController, &reconciletest.Case{
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
	}, reconciletest.Options{})
	timeTravel(t, r, "a restart with old caches deletes pods d/web-2")
}

// It runs one Pod more than requested; the counts in its status are correct.
// Pods of a finished Job are not created again, so others delete none.
func TestJob(t *testing.T) {
	r := explored(t, job.NewController, &reconciletest.Case{
		Run:     published.Wire(jobs).Program,
		Objects: []runtime.Object{published.Job(2, 1)},
		Actors:  []reconciletest.Actor{published.Ending()},
		Ignore:  []string{"pods metadata.name", "jobs.batch status.failed"}, // it counts Pods that others have deleted
	}, reconciletest.Options{SkipDrift: true})
	timeTravel(t, r, "+ pods d/web-*3 = there")
}
