// Package desired contains the desired Ingress of a Service, for both programs
// that are compared with ingress-per-service.
package desired

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// Workers is the number of keys that each program reconciles at the same time.
const Workers = 4

// Wanted reports whether a Service wants an Ingress.
func Wanted(s *corev1.Service) bool {
	return s.DeletionTimestamp == nil && s.Labels["ingress.homeostat.dev/expose"] == "true" && len(s.Spec.Ports) > 0
}

// Spec returns the spec of a Service's Ingress.
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
