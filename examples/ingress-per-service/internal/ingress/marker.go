package ingress

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/names"
)

const (
	// Name is the name of the controller and of its field manager. It is also
	// the value of the label that marks its Ingresses.
	Name = "ingress-per-service"

	// ExposeKey is the label or annotation with which a Service opts in. Its
	// value must be true.
	ExposeKey = "ingress.homeostat.dev/expose"
	// PortKey is the annotation with the name or number of the port to expose.
	// Defaults to the first port.
	PortKey = "ingress.homeostat.dev/port"

	// These labels and annotations mark an Ingress as ours. The UID is the UID
	// of the Service for which the Ingress was last written.
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

// isOurs reports whether this controller manages an Ingress: the Ingress has
// all marks.
func isOurs(i *networkingv1.Ingress) bool {
	return i.Labels[managedByKey] == Name && i.Labels[fromServiceKey] == yes && i.Annotations[serviceUIDKey] != ""
}

// serviceOf returns the name of the Service that an Ingress belongs to. It
// returns false if the Ingress is not ours. It does not return a UID, because
// the Ingress of a recreated Service is changed in place.
func serviceOf(i *networkingv1.Ingress) (names.Name, bool) {
	return names.Name{Key: types.NamespacedName{Namespace: i.Namespace, Name: i.Name}}, isOurs(i)
}
