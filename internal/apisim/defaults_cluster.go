package apisim

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// network are the kinds about ways to Pods.
func (d *defaulters) network() {
	setter(d, func(o *corev1.Service) {
		s := &o.Spec
		either(&s.Type, corev1.ServiceTypeClusterIP)
		either(&s.SessionAffinity, corev1.ServiceAffinityNone)
		switch c := s.SessionAffinityConfig; {
		case s.SessionAffinity == corev1.ServiceAffinityNone:
			s.SessionAffinityConfig = nil
		case c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil:
			s.SessionAffinityConfig = &corev1.SessionAffinityConfig{
				ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(corev1.DefaultClientIPServiceAffinitySeconds)},
			}
		}
		if s.Type != corev1.ServiceTypeExternalName {
			unset(&s.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
		}
		if onNodes(string(s.Type)) || s.Type == corev1.ServiceTypeClusterIP && len(s.ExternalIPs) > 0 {
			either(&s.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
		}
		if s.Type == corev1.ServiceTypeLoadBalancer {
			unset(&s.AllocateLoadBalancerNodePorts, true)
		}
	})
	setter(d, func(o *corev1.ServicePort) {
		either(&o.Protocol, corev1.ProtocolTCP)
		if o.TargetPort.IntVal == 0 && o.TargetPort.StrVal == "" {
			o.TargetPort = intstr.FromInt32(o.Port)
		}
	})
	setter(d, func(o *corev1.EndpointPort) { either(&o.Protocol, corev1.ProtocolTCP) })
	setter(d, func(o *discoveryv1.EndpointPort) {
		unset(&o.Name, "")
		unset(&o.Protocol, corev1.ProtocolTCP)
	})
	setter(d, func(o *networkingv1.NetworkPolicyPort) { unset(&o.Protocol, corev1.ProtocolTCP) })
	setter(d, func(o *networkingv1.NetworkPolicy) {
		if len(o.Spec.PolicyTypes) > 0 {
			return
		}
		o.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(o.Spec.Egress) > 0 {
			o.Spec.PolicyTypes = append(o.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	})
	setter(d, func(o *networkingv1.IngressClassParametersReference) {
		unset(&o.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
	})
}

// policies are rules for others: of access, admission, priority and storage. NodeStatus is here, too.
func (d *defaulters) policies() {
	setter(d, func(o *corev1.NodeStatus) {
		if o.Allocatable == nil {
			o.Allocatable = o.Capacity.DeepCopy()
		}
	})
	setter(d, func(o *rbacv1.RoleBinding) { either(&o.RoleRef.APIGroup, rbacv1.GroupName) })
	setter(d, func(o *rbacv1.ClusterRoleBinding) { either(&o.RoleRef.APIGroup, rbacv1.GroupName) })
	setter(d, func(o *rbacv1.Subject) {
		if o.Kind == rbacv1.UserKind || o.Kind == rbacv1.GroupKind {
			either(&o.APIGroup, rbacv1.GroupName)
		}
	})
	setter(d, func(o *schedulingv1.PriorityClass) { unset(&o.PreemptionPolicy, corev1.PreemptLowerPriority) })
	setter(d, func(o *storagev1.StorageClass) {
		unset(&o.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
		unset(&o.VolumeBindingMode, storagev1.VolumeBindingImmediate)
	})
	setter(d, func(o *storagev1.CSIDriverSpec) {
		unset(&o.AttachRequired, true)
		unset(&o.PodInfoOnMount, false)
		unset(&o.StorageCapacity, false)
		unset(&o.RequiresRepublish, false)
		unset(&o.SELinuxMount, false)
		unset(&o.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
		if len(o.VolumeLifecycleModes) == 0 {
			o.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
		}
	})
	setter(d, func(o *admissionv1.ValidatingWebhook) {
		unset(&o.FailurePolicy, admissionv1.Fail)
		unset(&o.MatchPolicy, admissionv1.Equivalent)
		unset(&o.NamespaceSelector, metav1.LabelSelector{})
		unset(&o.ObjectSelector, metav1.LabelSelector{})
		unset(&o.TimeoutSeconds, 10)
	})
	setter(d, func(o *admissionv1.MutatingWebhook) {
		unset(&o.FailurePolicy, admissionv1.Fail)
		unset(&o.MatchPolicy, admissionv1.Equivalent)
		unset(&o.NamespaceSelector, metav1.LabelSelector{})
		unset(&o.ObjectSelector, metav1.LabelSelector{})
		unset(&o.TimeoutSeconds, 10)
		unset(&o.ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
	})
	setter(d, func(o *admissionv1.Rule) { unset(&o.Scope, admissionv1.AllScopes) })
	setter(d, func(o *admissionv1.ServiceReference) { unset(&o.Port, 443) })
}
