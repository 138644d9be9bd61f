package deployments

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// reportDeployment returns a task that writes the status of a Deployment, if
// the status has changed.
func (f *fleet) reportDeployment(d *appsv1.Deployment) []Task {
	status := f.statusOf(d)
	if equality.Semantic.DeepEqual(status, d.Status) {
		return nil
	}
	d = d.DeepCopy()
	d.Status = status
	return []Task{func(ctx context.Context, client kubernetes.Interface) error {
		_, err := client.AppsV1().Deployments(d.Namespace).UpdateStatus(ctx, d, metav1.UpdateOptions{})
		return err
	}}
}

// statusOf computes the status of a Deployment from the statuses of its
// ReplicaSets, as the real controller does. The result may be older than the
// Pods.
func (f *fleet) statusOf(d *appsv1.Deployment) appsv1.DeploymentStatus {
	current, old := f.setsOf(d)
	status := appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, CollisionCount: d.Status.CollisionCount, TerminatingReplicas: new(int32),
	}
	wanted, sets := int32(0), old
	if current != nil {
		sets = append(sets, current)
		status.UpdatedReplicas = current.Status.Replicas
	}
	for _, s := range sets {
		wanted += replicas(s.Spec.Replicas)
		status.Replicas += s.Status.Replicas
		status.ReadyReplicas += s.Status.ReadyReplicas
		status.AvailableReplicas += s.Status.AvailableReplicas
		if n := s.Status.TerminatingReplicas; n != nil {
			*status.TerminatingReplicas += *n
		}
	}
	status.UnavailableReplicas = max(wanted-status.AvailableReplicas, 0)
	f.addConditions(d, current, &status)
	return status
}

// addConditions sets the condition Available, and also Progressing if the
// Deployment has a current ReplicaSet. It never sets ReplicaFailure.
func (f *fleet) addConditions(d *appsv1.Deployment, current *appsv1.ReplicaSet, status *appsv1.DeploymentStatus) {
	want := replicas(d.Spec.Replicas)
	_, unavailable := bounds(d)
	if recreates(d) {
		unavailable = 0
	}
	available := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable",
		Message: "Deployment has minimum availability.",
	}
	if status.AvailableReplicas < want-unavailable {
		available.Status, available.Reason = corev1.ConditionFalse, "MinimumReplicasUnavailable"
		available.Message = "Deployment does not have minimum availability."
	}
	conditions := []appsv1.DeploymentCondition{available}
	if current != nil {
		progressing := appsv1.DeploymentCondition{
			Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "ReplicaSetUpdated",
			Message: fmt.Sprintf("ReplicaSet %q is progressing.", current.Name),
		}
		if status.UpdatedReplicas == want && status.Replicas == want && status.AvailableReplicas == want {
			progressing.Reason = "NewReplicaSetAvailable"
			progressing.Message = fmt.Sprintf("ReplicaSet %q has successfully progressed.", current.Name)
		}
		conditions = append(conditions, progressing)
	}
	for i := range conditions {
		f.date(&conditions[i], d.Status.Conditions)
	}
	status.Conditions = conditions
}

// date sets the times of c. If the status has not changed, c keeps the
// LastTransitionTime of the existing condition. If the reason and the message
// have not changed either, it also keeps the LastUpdateTime.
func (f *fleet) date(c *appsv1.DeploymentCondition, have []appsv1.DeploymentCondition) {
	c.LastTransitionTime, c.LastUpdateTime = metav1.NewTime(f.now), metav1.NewTime(f.now)
	for _, h := range have {
		if h.Type != c.Type {
			continue
		}
		if h.Status == c.Status {
			c.LastTransitionTime = h.LastTransitionTime
		}
		if h.Status == c.Status && h.Reason == c.Reason && h.Message == c.Message {
			c.LastUpdateTime = h.LastUpdateTime
		}
	}
}
