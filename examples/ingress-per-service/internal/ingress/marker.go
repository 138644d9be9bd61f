package ingress

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/names"
)

const (
	// Name of the controller, which is its field manager and its mark.
	Name = "ingress-per-service"

	// ExposeKey is the label, or the annotation, by which a Service opts in with
	// the value true.
	ExposeKey = "ingress.homeostat.dev/expose"
	// PortKey is the annotation that says which port is exposed, by name or
	// number; without it, the first.
	PortKey = "ingress.homeostat.dev/port"

	// The mark of an Ingress that is ours. The UID tells for which Service it
	// was written last.
	managedByKey   = "app.kubernetes.io/managed-by"
	fromServiceKey = "fromservice"
	serviceUIDKey  = "ingress.homeostat.dev/service-uid"
	yes            = "true"
)

// optedIn reports whether a Service wants an Ingress and can have one.
func optedIn(s *corev1.Service) bool {
	return s.DeletionTimestamp == nil &&
		(s.Labels[ExposeKey] == yes || s.Annotations[ExposeKey] == yes) &&
		s.Spec.Type != corev1.ServiceTypeExternalName && s.Spec.ClusterIP != corev1.ClusterIPNone && len(s.Spec.Ports) > 0
}

// ours reports whether an Ingress bears the whole mark.
func ours(i *networkingv1.Ingress) bool {
	return i.Labels[managedByKey] == Name && i.Labels[fromServiceKey] == yes && i.Annotations[serviceUIDKey] != ""
}

// serviceOf is the name that an Ingress of ours stands for. The UID is left out:
// the Ingress of a Service that was replaced is changed in place.
func serviceOf(i *networkingv1.Ingress) (names.Name, bool) {
	return names.Name{Key: types.NamespacedName{Namespace: i.Namespace, Name: i.Name}}, ours(i)
}
