package apisim

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

// workloads are the kinds that make Pods, and those that scale them.
func (d *defaulters) workloads() {
	setter(d, func(o *appsv1.Deployment) {
		s := &o.Spec
		unset(&s.Replicas, 1)
		unset(&s.RevisionHistoryLimit, 10)
		unset(&s.ProgressDeadlineSeconds, 600)
		either(&s.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
		if s.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
			unset(&s.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
			unset(&s.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
			unset(&s.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
		}
	})
	setter(d, func(o *appsv1.ReplicaSet) { unset(&o.Spec.Replicas, 1) })
	setter(d, statefulSet)
	setter(d, func(o *appsv1.DaemonSet) {
		unset(&o.Spec.RevisionHistoryLimit, 10)
		u := &o.Spec.UpdateStrategy
		either(&u.Type, appsv1.RollingUpdateDaemonSetStrategyType)
		if u.Type == appsv1.RollingUpdateDaemonSetStrategyType {
			unset(&u.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
			unset(&u.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
			unset(&u.RollingUpdate.MaxSurge, intstr.FromInt32(0))
		}
	})
	setter(d, func(o *corev1.ReplicationController) {
		unset(&o.Spec.Replicas, 1)
		if o.Spec.Template != nil && len(o.Spec.Selector) == 0 {
			o.Spec.Selector = maps.Clone(o.Spec.Template.Labels)
		}
		if o.Spec.Template != nil && len(o.Labels) == 0 {
			o.Labels = maps.Clone(o.Spec.Template.Labels)
		}
	})
	setter(d, job)
	setter(d, func(o *batchv1.CronJob) {
		either(&o.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
		unset(&o.Spec.Suspend, false)
		unset(&o.Spec.SuccessfulJobsHistoryLimit, 3)
		unset(&o.Spec.FailedJobsHistoryLimit, 1)
	})
	setter(d, func(o *batchv1.PodFailurePolicyOnPodConditionsPattern) { either(&o.Status, corev1.ConditionTrue) })
	setter(d, func(o *autoscalingv2.HorizontalPodAutoscaler) {
		unset(&o.Spec.MinReplicas, 1)
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
	unset(&s.Replicas, 1)
	unset(&s.RevisionHistoryLimit, 10)
	either(&s.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	unset(&s.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	either(&s.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	either(&s.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	u := &s.UpdateStrategy
	if u.Type == "" {
		u.Type = appsv1.RollingUpdateStatefulSetStrategyType
		unset(&u.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	if u.Type == appsv1.RollingUpdateStatefulSetStrategyType && u.RollingUpdate != nil {
		unset(&u.RollingUpdate.Partition, 0)
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
		unset(&s.Completions, 1)
	}
	unset(&s.Parallelism, 1)
	unset(&s.CompletionMode, batchv1.NonIndexedCompletion)
	unset(&s.Suspend, false)
	unset(&s.ManualSelector, false)
	if s.BackoffLimitPerIndex != nil {
		unset(&s.BackoffLimit, math.MaxInt32)
	}
	unset(&s.BackoffLimit, 6)
	if s.PodFailurePolicy != nil {
		unset(&s.PodReplacementPolicy, batchv1.Failed)
	}
	unset(&s.PodReplacementPolicy, batchv1.TerminatingOrFailed)
}
