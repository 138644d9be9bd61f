package clients

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// IsGeneric reports whether a Go type is used for many kinds, as
// unstructured.Unstructured is.
func IsGeneric(t reflect.Type) bool {
	return t.Name() == "Unstructured" || strings.HasPrefix(t.Name(), "PartialObjectMetadata")
}

// BuiltIn returns the kind and the scope of a Go type of k8s.io/api. Clients do
// not show whether a kind is cluster-scoped, so the scope is read from a table.
// A test compares the table with client-go.
func BuiltIn(t reflect.Type) (kind schema.GroupVersionKind, clusterScoped, ok bool) {
	if t.Kind() != reflect.Pointer {
		return schema.GroupVersionKind{}, false, false
	}
	path, ok := strings.CutPrefix(t.Elem().PkgPath(), "k8s.io/api/")
	if !ok {
		return schema.GroupVersionKind{}, false, false
	}
	group, version, _ := strings.Cut(path, "/")
	kind = schema.GroupVersionKind{Group: groupOf(group), Version: version, Kind: t.Elem().Name()}
	return kind, clusterScopedKinds[kind.GroupKind()], true
}

// IsPlural reports whether resource is a regular plural of a kind. The author of
// a kind has chosen its plural. For example, the kind Switch may have the plural
// switches, and also switchs, which apimachinery would guess. A kind may be its
// own plural, such as Endpoints.
func IsPlural(resource, kind string) bool {
	singular := strings.ToLower(kind)
	stem, endsInY := strings.CutSuffix(singular, "y")
	return slices.Contains([]string{singular, singular + "s", singular + "es"}, resource) ||
		endsInY && resource == stem+"ies"
}

// groupOf returns the API group of a directory of k8s.io/api.
func groupOf(folder string) string {
	switch folder {
	case "core":
		return ""
	case "apps", "autoscaling", "batch", "extensions", "policy":
		return folder
	case "apiserverinternal":
		return "internal.apiserver.k8s.io"
	case "flowcontrol":
		return "flowcontrol.apiserver.k8s.io"
	case "rbac":
		return "rbac.authorization.k8s.io"
	default:
		return folder + ".k8s.io"
	}
}

// clusterScopedKinds are the cluster-scoped kinds of k8s.io/api.
//
//nolint:gochecknoglobals // a table
var clusterScopedKinds = func() map[schema.GroupKind]bool {
	kinds := map[schema.GroupKind]bool{}
	for group, names := range map[string]string{
		"": "ComponentStatus Namespace Node PersistentVolume",
		"admissionregistration.k8s.io": "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding " +
			"MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding " +
			"ValidatingWebhookConfiguration",
		"authentication.k8s.io":        "SelfSubjectReview TokenReview",
		"authorization.k8s.io":         "SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview",
		"certificates.k8s.io":          "CertificateSigningRequest ClusterTrustBundle",
		"flowcontrol.apiserver.k8s.io": "FlowSchema PriorityLevelConfiguration",
		"internal.apiserver.k8s.io":    "StorageVersion",
		"imagepolicy.k8s.io":           "ImageReview",
		"networking.k8s.io":            "IPAddress IngressClass ServiceCIDR",
		"node.k8s.io":                  "RuntimeClass",
		"rbac.authorization.k8s.io":    "ClusterRole ClusterRoleBinding",
		"resource.k8s.io":              "DeviceClass DeviceTaintRule ResourcePoolStatusRequest ResourceSlice",
		"scheduling.k8s.io":            "PriorityClass",
		"storage.k8s.io":               "CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass",
		"storagemigration.k8s.io":      "StorageVersionMigration",
	} {
		for name := range strings.FieldsSeq(names) {
			kinds[schema.GroupKind{Group: group, Kind: name}] = true
		}
	}
	return kinds
}()

// Example returns a new object if T is a pointer type, such as *corev1.Pod. It
// returns nil for any other type, such as an interface.
func Example[T any]() any {
	if t := reflect.TypeFor[T](); t.Kind() == reflect.Pointer {
		return reflect.New(t.Elem()).Interface()
	}
	return nil
}
