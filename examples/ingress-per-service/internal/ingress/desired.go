package ingress

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	networkingac "k8s.io/client-go/applyconfigurations/networking/v1"
)

// specOf returns the spec of the Ingress for a Service that has opted in. It
// depends only on the Service and the options.
func specOf(s *corev1.Service, o *Options) (spec networkingv1.IngressSpec, err error) {
	port, err := portOf(s)
	if err != nil {
		return spec, err
	}
	host, err := o.hostOf(s.Namespace, s.Name)
	if err != nil {
		return spec, err
	}
	pathType := o.PathType
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: s.Name, Port: port}}
	spec.Rules = []networkingv1.IngressRule{{
		Host: host,
		IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
			Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &pathType, Backend: backend}},
		}},
	}}
	if o.ClassName != "" {
		spec.IngressClassName = &o.ClassName
	}
	return spec, nil
}

// ingressOf returns the Ingress of a Service: the spec, with the labels and the
// annotation that mark the Ingress as ours.
func ingressOf(s *corev1.Service, spec networkingv1.IngressSpec) *networkingv1.Ingress {
	return &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   s.Namespace,
			Name:        s.Name,
			Labels:      map[string]string{managedByKey: Name, fromServiceKey: yes},
			Annotations: map[string]string{serviceUIDKey: string(s.UID)},
		},
		Spec: spec,
	}
}

// portOf returns the port that the Service wants to expose. It is the port
// whose name or number is in the annotation PortKey, or the first port if the
// Service does not have the annotation. portOf returns an error if the
// annotation does not fit any port.
func portOf(s *corev1.Service) (networkingv1.ServiceBackendPort, error) {
	wanted, ok := s.Annotations[PortKey]
	if !ok {
		return networkingv1.ServiceBackendPort{Number: s.Spec.Ports[0].Port}, nil
	}
	number, err := strconv.ParseInt(wanted, 10, 32)
	for _, port := range s.Spec.Ports {
		if err == nil && int64(port.Port) == number {
			return networkingv1.ServiceBackendPort{Number: port.Port}, nil
		}
		if err != nil && port.Name == wanted && wanted != "" {
			return networkingv1.ServiceBackendPort{Name: wanted}, nil
		}
	}
	return networkingv1.ServiceBackendPort{},
		fmt.Errorf("annotation %s is %q: the Service has no such port", PortKey, wanted)
}

// inShape reports whether current, an Ingress of ours, has all fields that the
// Ingress of s declares. It ignores other fields, because they belong to other
// clients.
func inShape(current *networkingv1.Ingress, s *corev1.Service, spec *networkingv1.IngressSpec) bool {
	return current.Annotations[serviceUIDKey] == string(s.UID) &&
		apiequality.Semantic.DeepEqual(current.Spec.Rules, spec.Rules) &&
		(spec.IngressClassName == nil ||
			apiequality.Semantic.DeepEqual(current.Spec.IngressClassName, spec.IngressClassName))
}

// declaration returns an apply configuration for want. The configuration has
// the UID and the resourceVersion of current, so that the server refuses it if
// the Ingress has changed since current was read.
func declaration(current, want *networkingv1.Ingress) *networkingac.IngressApplyConfiguration {
	spec := networkingac.IngressSpec()
	spec.IngressClassName = want.Spec.IngressClassName
	for _, rule := range want.Spec.Rules {
		paths := networkingac.HTTPIngressRuleValue()
		for _, path := range rule.HTTP.Paths {
			service := path.Backend.Service
			port := networkingac.ServiceBackendPort()
			if service.Port.Name != "" {
				port.WithName(service.Port.Name)
			} else {
				port.WithNumber(service.Port.Number)
			}
			backend := networkingac.IngressServiceBackend().WithName(service.Name).WithPort(port)
			paths.WithPaths(networkingac.HTTPIngressPath().WithPath(path.Path).WithPathType(*path.PathType).
				WithBackend(networkingac.IngressBackend().WithService(backend)))
		}
		spec.WithRules(networkingac.IngressRule().WithHost(rule.Host).WithHTTP(paths))
	}
	return networkingac.Ingress(want.Name, want.Namespace).
		WithUID(current.UID).WithResourceVersion(current.ResourceVersion).
		WithLabels(want.Labels).WithAnnotations(want.Annotations).WithSpec(spec)
}
