package actors

import (
	"cmp"
	"context"
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/deployments"
)

const defaultStart = 2 * time.Second

// KubeletOptions configure a [Kubelet]. Nil and zero fields mean the defaults.
type KubeletOptions struct {
	// Start is the virtual time from the creation of a Pod until it is ready,
	// if it has a node and its readiness gates are open. Defaults to 2 seconds.
	Start time.Duration
}

// Kubelet returns an actor that runs Pods. It does the work of the scheduler
// and of the kubelets of all Nodes.
//
//   - A Pod without a node is bound to a Node that is schedulable, and whose
//     condition Ready is True or missing. The Node must have the labels of the
//     Pod's nodeSelector, and the name in the Pod's node affinity, if any. Of
//     several such Nodes, the first by name is chosen; without such a Node, the
//     Pod waits. In a world without Nodes, the Pod is bound to the node "node".
//     Pods with a different schedulerName are left alone.
//   - A Pod with a node gets an address, runs and becomes ready after
//     [KubeletOptions].Start. A Pod with readiness gates becomes ready only
//     when all of them are open.
//   - A Pod that is being deleted keeps its readiness until its grace period is
//     over, and is then removed.
//   - A Node whose condition Ready is Unknown is out of reach: its Pods are
//     neither started nor removed.
//
// Containers never fail, and only init containers end. A step of the workload
// can report that a container has failed or ended, with a [reconciletest.Patch]
// of pods/status. Resources, taints, probes and volumes are ignored.
func Kubelet(o *KubeletOptions) reconciletest.Actor {
	if o == nil {
		o = &KubeletOptions{}
	}
	k := kubelet{start: cmp.Or(o.Start, defaultStart)}
	return (&routine{look: k.look}).actor("kubelet")
}

// kubelet decides on the next task of each Pod. It is stateless: the Pods, the
// Nodes and the time alone determine the tasks.
type kubelet struct{ start time.Duration }

// look returns the tasks of all Pods, ordered by namespace and name, and the
// time of the next task.
func (k kubelet) look(
	w *reconciletest.World, seen *deployments.Cache, now time.Time,
) (todo []deployments.Task, due time.Time, err error) {
	pods, err := deployments.Objects[corev1.Pod](w, seen, "pods")
	if err != nil || len(pods) == 0 {
		return nil, time.Time{}, err
	}
	nodes, err := deployments.Objects[corev1.Node](w, seen, "nodes")
	if err != nil {
		return nil, time.Time{}, err
	}
	for i := range pods {
		do, start := k.next(&pods[i], nodes, now)
		if do != nil {
			todo = append(todo, do)
		}
		due = deployments.Sooner(due, start)
	}
	return todo, due, nil
}

// next returns the task that a Pod needs now, or the time at which it will need
// one. It returns neither if the Pod needs no task until an object changes.
func (k kubelet) next(pod *corev1.Pod, nodes []corev1.Node, now time.Time) (task deployments.Task, due time.Time) {
	if pod.Spec.NodeName == "" {
		return schedule(pod, nodes), time.Time{}
	}
	if outOfReach(pod.Spec.NodeName, nodes) {
		return nil, time.Time{}
	}
	if pod.DeletionTimestamp != nil {
		switch due := pod.DeletionTimestamp.Time; {
		case pod.DeletionGracePeriodSeconds == nil || *pod.DeletionGracePeriodSeconds == 0:
			return nil, time.Time{} // the Pod waits for a finalizer
		case now.Before(due):
			return nil, due
		}
		return remove(pod), time.Time{}
	}
	switch pod.Status.Phase {
	case corev1.PodPending, "":
		if due := pod.CreationTimestamp.Add(k.start); now.Before(due) {
			return nil, due
		}
		return report(started(pod, metav1.NewTime(now))), time.Time{}
	case corev1.PodRunning:
		return regate(pod, metav1.NewTime(now)), time.Time{}
	case corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown:
	}
	return nil, time.Time{}
}

// anyNode is the node of all Pods in a world without Nodes. It does not exist
// as an object.
const anyNode = "node"

// schedule returns a task that binds a Pod to a Node. It returns nil if the Pod
// has a different scheduler or is being deleted, or if no Node fits.
func schedule(pod *corev1.Pod, nodes []corev1.Node) deployments.Task {
	if s := pod.Spec.SchedulerName; s != "" && s != corev1.DefaultSchedulerName || pod.DeletionTimestamp != nil {
		return nil
	}
	target := anyNode
	if len(nodes) > 0 {
		wanted := labels.SelectorFromSet(pod.Spec.NodeSelector)
		i := slices.IndexFunc(nodes, func(n corev1.Node) bool {
			ready := cmp.Or(nodeReady(&n), corev1.ConditionTrue)
			return !n.Spec.Unschedulable && ready == corev1.ConditionTrue && wanted.Matches(labels.Set(n.Labels)) &&
				named(pod, n.Name)
		})
		if i < 0 {
			return nil
		}
		target = nodes[i].Name
	}
	return func(ctx context.Context, client kubernetes.Interface) error {
		return client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: target},
		}, metav1.CreateOptions{})
	}
}

// named reports whether the required node affinity of the Pod allows a Node of
// this name. For example, the affinity of a DaemonSet's Pod names one Node.
// Terms about labels are ignored.
func named(pod *corev1.Pod, node string) bool {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil ||
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	terms := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return slices.ContainsFunc(terms, func(term corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(term.MatchFields, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == metav1.ObjectNameField &&
				slices.Contains(r.Values, node) != (r.Operator == corev1.NodeSelectorOpIn)
		})
	})
}

// nodeReady returns the status of a Node's condition Ready, or "" if the Node
// does not have the condition.
func nodeReady(n *corev1.Node) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

// outOfReach reports whether the named Node exists and its condition Ready is
// Unknown.
func outOfReach(name string, nodes []corev1.Node) bool {
	return slices.ContainsFunc(nodes, func(n corev1.Node) bool {
		return n.Name == name && nodeReady(&n) == corev1.ConditionUnknown
	})
}

// remove returns a task that removes a Pod whose grace period is over. It fails
// if the Pod was recreated under the same name.
func remove(pod *corev1.Pod) deployments.Task {
	return func(ctx context.Context, client kubernetes.Interface) error {
		now := int64(0)
		return client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID},
		})
	}
}

// report returns a task that writes the status of a Pod. It fails if the Pod
// has changed since the actor looked.
func report(pod *corev1.Pod) deployments.Task {
	return func(ctx context.Context, client kubernetes.Interface) error {
		_, err := client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	}
}

// started returns a copy of the Pod in which all containers are running.
func started(pod *corev1.Pod, now metav1.Time) *corev1.Pod {
	pod = pod.DeepCopy()
	s := &pod.Status
	s.Phase, s.StartTime, s.ObservedGeneration = corev1.PodRunning, &now, pod.Generation
	s.PodIP = address(pod)
	s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
	s.InitContainerStatuses, s.ContainerStatuses = nil, nil
	yes := true
	for _, c := range pod.Spec.InitContainers {
		s.InitContainerStatuses = append(s.InitContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: new(bool),
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Reason: "Completed", StartedAt: now, FinishedAt: now,
			}},
		})
	}
	for _, c := range pod.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: &yes,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	for _, t := range []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady,
	} {
		setPodCondition(pod, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue}, now)
	}
	setPodCondition(pod, readiness(pod), now)
	return pod
}

// address returns an IP address that is derived from the Pod's UID. So two Pods
// hardly ever have the same address.
func address(pod *corev1.Pod) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(pod.UID))
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], h.Sum32())
	ip[0] = 10
	return netip.AddrFrom4(ip).String()
}

// readiness returns the condition Ready of a running Pod. It is true if all
// readiness gates are open.
func readiness(pod *corev1.Pod) corev1.PodCondition {
	for _, gate := range pod.Spec.ReadinessGates {
		open := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == gate.ConditionType && c.Status == corev1.ConditionTrue
		})
		if !open {
			return corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ReadinessGatesNotReady"}
		}
	}
	return corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
}

// regate returns a task that updates the condition Ready of a Pod whose
// readiness gates have opened or closed. It returns nil if the Pod has no
// readiness gates, or if the condition is up to date.
func regate(pod *corev1.Pod, now metav1.Time) deployments.Task {
	if len(pod.Spec.ReadinessGates) == 0 {
		return nil
	}
	fresh := pod.DeepCopy()
	if !setPodCondition(fresh, readiness(pod), now) {
		return nil
	}
	return report(fresh)
}

// setPodCondition sets a condition, and reports whether its status has changed.
// If the Pod already has the condition with the same status, it is left as it
// is.
func setPodCondition(pod *corev1.Pod, c corev1.PodCondition, now metav1.Time) (changed bool) {
	c.LastTransitionTime = now
	conditions := pod.Status.Conditions
	i := slices.IndexFunc(conditions, func(have corev1.PodCondition) bool { return have.Type == c.Type })
	switch {
	case i < 0:
		pod.Status.Conditions = append(pod.Status.Conditions, c)
	case conditions[i].Status == c.Status:
		return false
	default:
		conditions[i] = c
	}
	return true
}
