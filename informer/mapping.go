package informer

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Mapping returns the kind, the resource and the scope of the objects, as far as
// Options, client and Go type tell, without a request: the scope is nil if it is
// unknown, the name of the resource is empty, and so is the version if the group
// is unknown.
//
// Errors: an Options.Kind that is not what the client reads.
func (i *Informer[T]) Mapping() (meta.RESTMapping, error) {
	i.mu.Lock()
	first, bound := i.sources[0], i.of != nil
	i.mu.Unlock()
	m := meta.RESTMapping{Resource: resourceFor[T](first)}
	m.GroupVersionKind = m.Resource.GroupVersion().WithKind(i.Kind())
	_, clusterScoped, builtIn := builtIn(reflect.TypeFor[T]())
	switch {
	case i.options.Scope == meta.RESTScopeNameRoot:
		m.Scope = meta.RESTScopeRoot
	case i.options.Scope != "", bound, first.namespace != "", first.boundTo != "", builtIn && !clusterScoped:
		m.Scope = meta.RESTScopeNamespace
	case builtIn:
		m.Scope = meta.RESTScopeRoot
	}
	return m, i.checkKind(first.resource.Resource)
}

// checkKind compares Options.Kind with what the client reads, or with the Go type.
func (i *Informer[T]) checkKind(resource string) error {
	kind, t := i.options.Kind, reflect.TypeFor[T]()
	if kind == "" || t.Kind() == reflect.Pointer && t.Elem().Name() == kind {
		return nil
	}
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
	switch {
	case resource == plural.Resource && kind[:1] == strings.ToUpper(kind[:1]):
		return nil
	case resource != "":
		return fmt.Errorf("informer.Options.Kind is %q: the client reads %q", kind, resource)
	case t.Kind() == reflect.Pointer && !isGeneric(t.Elem()):
		return fmt.Errorf("informer.Options.Kind is %q: the Go type is %s", kind, t)
	}
	return nil
}

// builtIn returns what a Go type of k8s.io/api stands for. Clients of all
// namespaces and of cluster-scoped objects are alike, so that the scope has to be
// known by heart: a test compares it with client-go.
func builtIn(t reflect.Type) (kind schema.GroupVersionKind, clusterScoped, ok bool) {
	if t.Kind() != reflect.Pointer {
		return kind, false, false
	}
	path, ok := strings.CutPrefix(t.Elem().PkgPath(), "k8s.io/api/")
	if !ok {
		return kind, false, false
	}
	group, version, _ := strings.Cut(path, "/")
	kind = schema.GroupVersionKind{Group: groupOf(group), Version: version, Kind: t.Elem().Name()}
	return kind, clusterScopedKinds[kind.GroupKind()], true
}

// groupOf returns the API group of a folder of k8s.io/api.
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

// clusterScopedKinds are those of k8s.io/api.
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
