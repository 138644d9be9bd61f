package kubernetes_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/internal/proof/published"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/actors"
)

// past is the finding of restarts with stale caches, in all versions: see
// TestReplicaSet.
var past = []string{"caches that begin"}

// Expectations expire after five minutes: from then on the controllers believe
// caches that are behind.
var slowWatch = reconciletest.Options{Lag: 6 * time.Minute, Rest: 8 * time.Minute, KnownFindings: past, SkipDrift: true}

// expired is when it is too late for them, and the cache is still behind.
const expired = 5*time.Minute + 30*time.Second

// kubernetes/kubernetes#129795
func TestPairReplicaSetWhoseExpectationsExpire(t *testing.T) {
	scale := reconciletest.Patch("replicasets.apps", "d/web", `{"spec":{"replicas":3}}`)
	unscaled := func(w *reconciletest.World) bool {
		sets, err := reconciletest.List[appsv1.ReplicaSet](w, "replicasets.apps")
		return err == nil && len(sets) == 1 && *sets[0].Spec.Replicas == 2
	}
	(&published.Bug{
		Controller: replicaset.NewReplicaSetController, Fixed: "v1.36.0", Options: slowWatch,
		Case: &reconciletest.Case{
			Run: published.Wire(replicaSets).Program, Objects: []runtime.Object{published.ReplicaSet(2)},
			Actors: []reconciletest.Actor{
				actors.Kubelet(nil),
				published.Later(expired, "replicasets.apps", scale, unscaled),
			},
			Ignore: []string{"pods metadata.name"},
		},
		Oracle: "counts", Says: `at once there are pods d/web-\*: 5, and without the delay 3`,
	}).Told(t)
}

// kubernetes/kubernetes#134937
func TestPairDaemonSetWhoseExpectationsExpire(t *testing.T) {
	node := func(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	missing := func(w *reconciletest.World) bool {
		nodes, err := reconciletest.List[corev1.Node](w, "nodes")
		return err == nil && !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == "b" })
	}
	options := slowWatch
	options.KnownFindings = append([]string{"nodes a was"}, past...) // as below, a deleted Node wakes nothing
	(&published.Bug{
		Controller: daemon.NewDaemonSetsController, Fixed: "v1.36.0", Options: options,
		Case: &reconciletest.Case{
			Run: published.Wire(daemonSets).Program, Objects: []runtime.Object{node("a"), published.DaemonSet()},
			Actors: []reconciletest.Actor{
				actors.Kubelet(nil),
				published.Later(expired, "daemonsets.apps", reconciletest.Create(node("b")), missing),
			},
			// Pods are compared by age, and which of two nodes has the older
			// one does not matter
			Ignore: []string{"pods metadata.name", "pods spec.affinity", "pods spec.nodeName", "controllerrevisions.apps *"},
		},
		Oracle: "counts", Says: `at once there are pods d/web-\*: 3, and without the delay 2`,
	}).Told(t)
}

// kubernetes/kubernetes#137210: a Job does not see its own write, and no longer
// counts a finished Pod.
func TestPairJobThatIsBehind(t *testing.T) {
	(&published.Bug{
		Controller: job.NewController, Fixed: "v1.36.0", Options: reconciletest.Options{KnownFindings: past, SkipDrift: true},
		Case: &reconciletest.Case{
			Run: published.Wire(jobs).Program, Objects: []runtime.Object{published.Job(2, 1)},
			Actors: []reconciletest.Actor{actors.Kubelet(nil), published.Ending()},
			Ignore: []string{"pods metadata.name"},
		},
		Oracle: "state", Says: `^watch held back(.|\n)*\+ pods d/web-\*3`,
	}).Told(t)
}

// kubernetes/kubernetes#133474: all is as it should be, and each look at it
// writes.
func TestPairHeadlessServiceWithoutPorts(t *testing.T) {
	service := &corev1.Service{
		ObjectMeta: published.Meta(),
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, ClusterIPs: []string{corev1.ClusterIPNone},
			IPFamilies:     []corev1.IPFamily{corev1.IPv4Protocol},
			IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicySingleStack), Selector: published.Selector().MatchLabels,
		},
	}
	service.UID = "service-uid"
	pod, node := published.RunningPod("web-0", "10.0.0.1"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	(&published.Bug{
		Controller: endpointslice.NewController, Fixed: "v1.36.0",
		Case: &reconciletest.Case{
			Run:     published.Wire(endpointSlices).Program,
			Objects: []runtime.Object{node, pod, service, published.SliceOf(service, pod)},
			Workload: []reconciletest.Step{
				reconciletest.Patch("pods", "d/web-0", `{"metadata":{"labels":{"seen":"yes"}}}`),
			},
			Goal: func(w *reconciletest.World) error {
				slices, err := w.Objects("endpointslices.discovery.k8s.io")
				if err == nil && len(slices) != 1 {
					err = fmt.Errorf("the Service has %d slices, want 1", len(slices))
				}
				return err
			},
		},
		// The slice is there, and right: a version with the repair writes
		// nothing. A deleted Node wakes nothing: its Pods are deleted, too,
		// which wakes.
		Options: reconciletest.Options{KnownFindings: []string{"the Goal holds without the program", "nodes n was"}},
		Oracle:  "tail", Says: `a restart wrote again: update endpointslices.discovery.k8s.io d/web-`,
	}).Told(t)
}
