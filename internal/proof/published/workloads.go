package published

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

var labels = map[string]string{"app": "web"}

// Meta returns the metadata of every workload. The names of its Pods are
// derived from the name in the metadata.
func Meta() metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "d", Name: "web"} }

// Selector returns a selector of the Pods of [Template].
func Selector() *metav1.LabelSelector { return &metav1.LabelSelector{MatchLabels: labels} }

// Template returns a template for Pods with one container.
func Template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
}

// ReplicaSet returns a ReplicaSet with n Pods.
func ReplicaSet(n int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: Meta(),
		Spec:       appsv1.ReplicaSetSpec{Replicas: &n, Selector: Selector(), Template: Template()},
	}
}

// DaemonSet returns a DaemonSet with a Pod on each node.
func DaemonSet() *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: Meta(),
		Spec: appsv1.DaemonSetSpec{
			Selector: Selector(), Template: Template(),
		},
	}
}

// Job returns a Job that is complete when as many of its Pods have succeeded as
// completions says. It runs n Pods at once.
func Job(completions, n int32) *batchv1.Job {
	pod := Template()
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{
		ObjectMeta: Meta(),
		Spec: batchv1.JobSpec{
			Completions: &completions, Parallelism: &n, Template: pod,
		},
	}
}

// Ending returns an actor that lets the containers of Pods succeed, one Pod
// after the other.
func Ending() reconciletest.Actor {
	running := func(w *reconciletest.World) *corev1.Pod {
		return first(w, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	}
	return reconciletest.Actor{
		Name:    "containers that end",
		Enabled: func(w *reconciletest.World) bool { return running(w) != nil },
		Do: func(w *reconciletest.World) {
			pod := running(w)
			pod.Status.Phase = corev1.PodSucceeded
			write(w, pod)
		},
	}
}

// Later returns an actor that takes a step when the first object of a resource
// has reached the given age. It takes the step only if need returns true.
func Later(
	age time.Duration, resource string, step reconciletest.Step, need func(w *reconciletest.World) bool,
) reconciletest.Actor {
	due := func(w *reconciletest.World) time.Time {
		objects, err := w.Objects(resource)
		if err != nil || len(objects) == 0 || !need(w) {
			return time.Time{}
		}
		return objects[0].GetCreationTimestamp().Add(age)
	}
	return reconciletest.Actor{
		Name: "later, " + step.Name,
		Due:  due,
		Enabled: func(w *reconciletest.World) bool {
			t := due(w)
			return !t.IsZero() && !time.Now().Before(t)
		},
		Do: func(w *reconciletest.World) { _ = step.Do(context.Background(), w) },
	}
}

// first returns the first Pod of the world for which matches returns true, or
// nil.
func first(w *reconciletest.World, matches func(p *corev1.Pod) bool) *corev1.Pod {
	pods, err := reconciletest.List[corev1.Pod](w, "pods")
	if err != nil {
		return nil
	}
	for i := range pods {
		if matches(&pods[i]) {
			return &pods[i]
		}
	}
	return nil
}

// write writes the status of a Pod. It ignores errors, because after an error
// the actor remains enabled and tries again.
func write(w *reconciletest.World, pod *corev1.Pod) {
	_, _ = w.Client().CoreV1().Pods(pod.Namespace).UpdateStatus(context.Background(), pod, metav1.UpdateOptions{})
}

// RunningPod returns a running Pod with an address.
func RunningPod(name, ip string) *corev1.Pod {
	t := Template()
	t.Namespace, t.Name, t.UID = "d", name, types.UID(name)
	t.Spec.NodeName = "n"
	return &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec, Status: corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}}
}

// SliceOf returns the slice that the EndpointSlice controller makes for one Pod
// of a headless Service that has no ports.
func SliceOf(service *corev1.Service, pod *corev1.Pod) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: service.Namespace, Name: service.Name + "-bcdfg", GenerateName: service.Name + "-",
			Labels: map[string]string{
				discoveryv1.LabelServiceName: service.Name, discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
				corev1.IsHeadlessService: "",
			},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(service, corev1.SchemeGroupVersion.WithKind("Service")),
			},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{pod.Status.PodIP}, NodeName: &pod.Spec.NodeName,
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		}},
	}
}
