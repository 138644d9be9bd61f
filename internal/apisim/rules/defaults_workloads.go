package rules

import (
	"maps"
	"math"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// workloads registers defaults of the kinds that make Pods, and of the kinds
// that scale them.
func (d *defaulters) workloads() {
	setter(d, func(o *appsv1.Deployment) {
		s := &o.Spec
		setDefaultPointer(&s.Replicas, 1)
		setDefaultPointer(&s.RevisionHistoryLimit, 10)
		setDefaultPointer(&s.ProgressDeadlineSeconds, 600)
		setDefault(&s.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
		if s.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
			setDefaultPointer(&s.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
			setDefaultPointer(&s.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
			setDefaultPointer(&s.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
		}
	})
	setter(d, func(o *appsv1.ReplicaSet) { setDefaultPointer(&o.Spec.Replicas, 1) })
	setter(d, statefulSet)
	setter(d, func(o *appsv1.DaemonSet) {
		setDefaultPointer(&o.Spec.RevisionHistoryLimit, 10)
		u := &o.Spec.UpdateStrategy
		setDefault(&u.Type, appsv1.RollingUpdateDaemonSetStrategyType)
		if u.Type == appsv1.RollingUpdateDaemonSetStrategyType {
			setDefaultPointer(&u.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
			setDefaultPointer(&u.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
			setDefaultPointer(&u.RollingUpdate.MaxSurge, intstr.FromInt32(0))
		}
	})
	setter(d, func(o *corev1.ReplicationController) {
		setDefaultPointer(&o.Spec.Replicas, 1)
		if o.Spec.Template != nil && len(o.Spec.Selector) == 0 {
			o.Spec.Selector = maps.Clone(o.Spec.Template.Labels)
		}
		if o.Spec.Template != nil && len(o.Labels) == 0 {
			o.Labels = maps.Clone(o.Spec.Template.Labels)
		}
	})
	setter(d, job)
	setter(d, func(o *batchv1.CronJob) {
		setDefault(&o.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
		setDefaultPointer(&o.Spec.Suspend, false)
		setDefaultPointer(&o.Spec.SuccessfulJobsHistoryLimit, 3)
		setDefaultPointer(&o.Spec.FailedJobsHistoryLimit, 1)
	})
	setter(d, func(o *batchv1.PodFailurePolicyOnPodConditionsPattern) { setDefault(&o.Status, corev1.ConditionTrue) })
	setter(d, func(o *autoscalingv2.HorizontalPodAutoscaler) {
		setDefaultPointer(&o.Spec.MinReplicas, 1)
		if len(o.Spec.Metrics) == 0 {
			o.Spec.Metrics = []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{
					Name: corev1.ResourceCPU,
					Target: autoscalingv2.MetricTarget{
						Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(80)),
					},
				},
			}}
		}
	})
}

func statefulSet(o *appsv1.StatefulSet) {
	s := &o.Spec
	setDefaultPointer(&s.Replicas, 1)
	setDefaultPointer(&s.RevisionHistoryLimit, 10)
	setDefault(&s.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	setDefaultPointer(&s.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	setDefault(&s.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	setDefault(&s.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	u := &s.UpdateStrategy
	if u.Type == "" {
		u.Type = appsv1.RollingUpdateStatefulSetStrategyType
		setDefaultPointer(&u.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	if u.Type == appsv1.RollingUpdateStatefulSetStrategyType && u.RollingUpdate != nil {
		setDefaultPointer(&u.RollingUpdate.Partition, 0)
	}
	for i := range s.VolumeClaimTemplates {
		s.VolumeClaimTemplates[i].TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
	}
}

func job(o *batchv1.Job) {
	s := &o.Spec
	if len(o.Labels) == 0 {
		o.Labels = maps.Clone(s.Template.Labels)
	}
	if s.Parallelism == nil {
		setDefaultPointer(&s.Completions, 1)
	}
	setDefaultPointer(&s.Parallelism, 1)
	setDefaultPointer(&s.CompletionMode, batchv1.NonIndexedCompletion)
	setDefaultPointer(&s.Suspend, false)
	setDefaultPointer(&s.ManualSelector, false)
	if s.BackoffLimitPerIndex != nil {
		setDefaultPointer(&s.BackoffLimit, math.MaxInt32)
	}
	setDefaultPointer(&s.BackoffLimit, 6)
	if s.PodFailurePolicy != nil {
		setDefaultPointer(&s.PodReplacementPolicy, batchv1.Failed)
	}
	setDefaultPointer(&s.PodReplacementPolicy, batchv1.TerminatingOrFailed)
}
