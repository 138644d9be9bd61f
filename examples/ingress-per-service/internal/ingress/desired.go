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

// desired returns the Ingress of a Service that has opted in. It depends on
// nothing else.
func desired(s *corev1.Service, o *Options) (*networkingv1.Ingress, error) {
	port, err := portOf(s)
	if err != nil {
		return nil, err
	}
	host, err := o.hostOf(s.Namespace, s.Name)
	if err != nil {
		return nil, err
	}
	pathType := o.PathType
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: s.Name, Port: port}}
	out := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   s.Namespace,
			Name:        s.Name,
			Labels:      map[string]string{managedByKey: Name, fromServiceKey: yes},
			Annotations: map[string]string{serviceUIDKey: string(s.UID)},
		},
		Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{
			Host: host,
			IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &pathType, Backend: backend}},
			}},
		}}},
	}
	if o.ClassName != "" {
		out.Spec.IngressClassName = &o.ClassName
	}
	return out, nil
}

// portOf returns the port that the Service asks to be exposed, as it asks for
// it: by name or by number.
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

// inShape reports whether current has everything that want declares. What others
// have added is theirs.
func inShape(current, want *networkingv1.Ingress) bool {
	return contains(current.Labels, want.Labels) && contains(current.Annotations, want.Annotations) &&
		apiequality.Semantic.DeepEqual(current.Spec.Rules, want.Spec.Rules) &&
		(want.Spec.IngressClassName == nil ||
			apiequality.Semantic.DeepEqual(current.Spec.IngressClassName, want.Spec.IngressClassName))
}

func contains(all, some map[string]string) bool {
	for key, value := range some {
		if has, ok := all[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// declaration returns the apply configuration of want, under the condition that the Ingress
// is still as current shows it.
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
