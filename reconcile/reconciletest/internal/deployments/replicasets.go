package deployments

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// podsOf returns all Pods of a ReplicaSet, including Pods that are being
// deleted.
func (f *fleet) podsOf(s *appsv1.ReplicaSet) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range f.pods {
		if p := &f.pods[i]; metav1.IsControlledBy(p, s) {
			pods = append(pods, p)
		}
	}
	return pods
}

// anyPods reports whether the ReplicaSets have a Pod that has not ended.
func (f *fleet) anyPods(sets []*appsv1.ReplicaSet) bool {
	return slices.ContainsFunc(sets, func(s *appsv1.ReplicaSet) bool {
		return slices.ContainsFunc(f.podsOf(s), alive)
	})
}

// alive reports whether a Pod has not ended, even if it is being deleted.
func alive(p *corev1.Pod) bool {
	return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// active returns the Pods that count as replicas of a ReplicaSet.
func (f *fleet) active(s *appsv1.ReplicaSet) []*corev1.Pod {
	return slices.DeleteFunc(f.podsOf(s), func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil || !alive(p) })
}

// excess returns the tasks that delete surplus Pods, first the Pods that are
// not ready, then the youngest.
func (f *fleet) excess(s *appsv1.ReplicaSet) []Task {
	have, want := f.active(s), int(replicas(s.Spec.Replicas))
	if len(have) <= want {
		return nil
	}
	slices.SortStableFunc(have, func(a, b *corev1.Pod) int {
		_, aReady := podReady(a)
		_, bReady := podReady(b)
		if aReady != bReady {
			if bReady {
				return -1
			}
			return 1
		}
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	var todo []Task
	for _, p := range have[:len(have)-want] {
		todo = append(todo, func(ctx context.Context, client kubernetes.Interface) error {
			return client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name,
				metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}})
		})
	}
	return todo
}

// newPod returns a task that creates a Pod from the template, with a generated
// name.
func newPod(s *appsv1.ReplicaSet) Task {
	t := s.Spec.Template.DeepCopy()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, GenerateName: s.Name + "-", Labels: t.Labels, Annotations: t.Annotations,
			Finalizers: t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(s, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")),
			},
		},
		Spec: t.Spec,
	}
	return func(ctx context.Context, client kubernetes.Interface) error {
		_, err := client.CoreV1().Pods(s.Namespace).Create(ctx, p, metav1.CreateOptions{})
		return err
	}
}

// reportSet returns a task that writes the status of a ReplicaSet, if the
// status has changed.
func (f *fleet) reportSet(s *appsv1.ReplicaSet) []Task {
	status := appsv1.ReplicaSetStatus{
		ObservedGeneration: s.Generation, Conditions: s.Status.Conditions, TerminatingReplicas: new(int32),
	}
	patience := time.Duration(s.Spec.MinReadySeconds) * time.Second
	for _, p := range f.podsOf(s) {
		switch c, ready := podReady(p); {
		case !alive(p):
		case p.DeletionTimestamp != nil:
			*status.TerminatingReplicas++
		default:
			status.Replicas++
			status.FullyLabeledReplicas++
			if !ready {
				break
			}
			status.ReadyReplicas++
			if due := c.LastTransitionTime.Add(patience); !f.now.Before(due) {
				status.AvailableReplicas++
			} else {
				f.due = Sooner(f.due, due)
			}
		}
	}
	if equality.Semantic.DeepEqual(status, s.Status) {
		return nil
	}
	s = s.DeepCopy()
	s.Status = status
	return []Task{func(ctx context.Context, client kubernetes.Interface) error {
		_, err := client.AppsV1().ReplicaSets(s.Namespace).UpdateStatus(ctx, s, metav1.UpdateOptions{})
		return err
	}}
}

// podReady returns the condition Ready of a Pod and true, if the condition is
// true. Otherwise it returns false.
func podReady(pod *corev1.Pod) (corev1.PodCondition, bool) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c, true
		}
	}
	return corev1.PodCondition{}, false
}
