package patch

import (
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

var _ statusClient[*corev1ac.PodApplyConfiguration, *corev1.Pod] = corev1client.PodInterface(nil)
