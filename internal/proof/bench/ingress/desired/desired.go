// Package desired has the Ingress that both rivals of ingress-per-service make
// of a Service.
package desired

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// Workers is how many keys each program reconciles at once.
const Workers = 4

// Wanted reports whether a Service wants an Ingress.
func Wanted(s *corev1.Service) bool {
	return s.DeletionTimestamp == nil && s.Labels["ingress.homeostat.dev/expose"] == "true" && len(s.Spec.Ports) > 0
}

// Spec of the Ingress of a Service.
func Spec(s *corev1.Service) networkingv1.IngressSpec {
	pathType := networkingv1.PathTypePrefix
	return networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{
		Host: s.Name + "." + s.Namespace + ".example.com",
		IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
			Paths: []networkingv1.HTTPIngressPath{{
				Path: "/", PathType: &pathType, Backend: networkingv1.IngressBackend{
					Service: &networkingv1.IngressServiceBackend{
						Name: s.Name, Port: networkingv1.ServiceBackendPort{Number: s.Spec.Ports[0].Port},
					},
				},
			}},
		}},
	}}}
}
