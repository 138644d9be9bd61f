package rules

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

// network registers defaults of Services, Endpoints, EndpointSlices,
// NetworkPolicies and IngressClasses.
func (d *defaulters) network() {
	setter(d, func(o *corev1.Service) {
		s := &o.Spec
		setDefault(&s.Type, corev1.ServiceTypeClusterIP)
		setDefault(&s.SessionAffinity, corev1.ServiceAffinityNone)
		switch c := s.SessionAffinityConfig; {
		case s.SessionAffinity == corev1.ServiceAffinityNone:
			s.SessionAffinityConfig = nil
		case c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil:
			s.SessionAffinityConfig = &corev1.SessionAffinityConfig{
				ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(corev1.DefaultClientIPServiceAffinitySeconds)},
			}
		}
		if s.Type != corev1.ServiceTypeExternalName {
			setDefaultPointer(&s.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
		}
		if OnNodes(string(s.Type)) || s.Type == corev1.ServiceTypeClusterIP && len(s.ExternalIPs) > 0 {
			setDefault(&s.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
		}
		if s.Type == corev1.ServiceTypeLoadBalancer {
			setDefaultPointer(&s.AllocateLoadBalancerNodePorts, true)
		}
	})
	setter(d, func(o *corev1.ServicePort) {
		setDefault(&o.Protocol, corev1.ProtocolTCP)
		if o.TargetPort.IntVal == 0 && o.TargetPort.StrVal == "" {
			o.TargetPort = intstr.FromInt32(o.Port)
		}
	})
	setter(d, func(o *corev1.EndpointPort) { setDefault(&o.Protocol, corev1.ProtocolTCP) })
	setter(d, func(o *discoveryv1.EndpointPort) {
		setDefaultPointer(&o.Name, "")
		setDefaultPointer(&o.Protocol, corev1.ProtocolTCP)
	})
	setter(d, func(o *networkingv1.NetworkPolicyPort) { setDefaultPointer(&o.Protocol, corev1.ProtocolTCP) })
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
		setDefaultPointer(&o.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
	})
}

// policies registers defaults of access rules, admission, priorities and
// storage, and of NodeStatus.
func (d *defaulters) policies() {
	setter(d, func(o *corev1.NodeStatus) {
		if o.Allocatable == nil {
			o.Allocatable = o.Capacity.DeepCopy()
		}
	})
	setter(d, func(o *rbacv1.RoleBinding) { setDefault(&o.RoleRef.APIGroup, rbacv1.GroupName) })
	setter(d, func(o *rbacv1.ClusterRoleBinding) { setDefault(&o.RoleRef.APIGroup, rbacv1.GroupName) })
	setter(d, func(o *rbacv1.Subject) {
		if o.Kind == rbacv1.UserKind || o.Kind == rbacv1.GroupKind {
			setDefault(&o.APIGroup, rbacv1.GroupName)
		}
	})
	setter(d, func(o *schedulingv1.PriorityClass) {
		setDefaultPointer(&o.PreemptionPolicy, corev1.PreemptLowerPriority)
	})
	setter(d, func(o *storagev1.StorageClass) {
		setDefaultPointer(&o.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
		setDefaultPointer(&o.VolumeBindingMode, storagev1.VolumeBindingImmediate)
	})
	setter(d, func(o *storagev1.CSIDriverSpec) {
		setDefaultPointer(&o.AttachRequired, true)
		setDefaultPointer(&o.PodInfoOnMount, false)
		setDefaultPointer(&o.StorageCapacity, false)
		setDefaultPointer(&o.RequiresRepublish, false)
		setDefaultPointer(&o.SELinuxMount, false)
		setDefaultPointer(&o.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
		if len(o.VolumeLifecycleModes) == 0 {
			o.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
		}
	})
	setter(d, func(o *admissionv1.ValidatingWebhook) {
		setDefaultPointer(&o.FailurePolicy, admissionv1.Fail)
		setDefaultPointer(&o.MatchPolicy, admissionv1.Equivalent)
		setDefaultPointer(&o.NamespaceSelector, metav1.LabelSelector{})
		setDefaultPointer(&o.ObjectSelector, metav1.LabelSelector{})
		setDefaultPointer(&o.TimeoutSeconds, 10)
	})
	setter(d, func(o *admissionv1.MutatingWebhook) {
		setDefaultPointer(&o.FailurePolicy, admissionv1.Fail)
		setDefaultPointer(&o.MatchPolicy, admissionv1.Equivalent)
		setDefaultPointer(&o.NamespaceSelector, metav1.LabelSelector{})
		setDefaultPointer(&o.ObjectSelector, metav1.LabelSelector{})
		setDefaultPointer(&o.TimeoutSeconds, 10)
		setDefaultPointer(&o.ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
	})
	setter(d, func(o *admissionv1.Rule) { setDefaultPointer(&o.Scope, admissionv1.AllScopes) })
	setter(d, func(o *admissionv1.ServiceReference) { setDefaultPointer(&o.Port, 443) })
}

// OnNodes reports whether a type of Service has node ports.
func OnNodes(kind string) bool { return kind == "NodePort" || kind == "LoadBalancer" }
