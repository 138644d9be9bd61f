package informer

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/option"
)

// scope is the part of a kind that an informer caches, but for its namespaces.
type scope struct {
	labels labels.Selector
	fields fields.Selector
}

func newScope(o *Options) scope {
	s := scope{labels: labels.Everything(), fields: fields.Everything()}
	if selector, err := labels.Parse(o.LabelSelector); err == nil {
		s.labels = selector
	}
	if selector, err := fields.ParseSelector(o.FieldSelector); err == nil {
		s.fields = selector
	}
	return s
}

// InScope reports whether an object of key could be in the cache: false if key is
// outside the informer's namespaces, or in a shard that is not added, or if its
// field selector requires another name or namespace. Labels and other fields do not
// count, as a key has none.
func (i *Informer[T]) InScope(key types.NamespacedName) bool {
	if !i.feed.watchesNamespace(key.Namespace) {
		return false
	}
	for field, value := range map[string]string{"metadata.name": key.Name, "metadata.namespace": key.Namespace} {
		if required, ok := i.scope.fields.RequiresExactMatch(field); ok && required != value {
			return false
		}
	}
	return true
}

// Matches reports whether obj is in the informer's scope: its namespaces and shards,
// its label selector and its field selector. A field that obj does not have counts
// as empty. It does not look into the cache.
func (i *Informer[T]) Matches(obj metav1.Object) bool {
	return i.feed.watchesNamespace(obj.GetNamespace()) && i.scope.labels.Matches(labels.Set(obj.GetLabels())) &&
		(i.scope.fields.Empty() || i.scope.fields.Matches(fieldsOf(obj, i.scope.fields)))
}

func (f *feed[T]) watchesNamespace(namespace string) bool {
	return f.store.shards.admits(namespace) && slices.ContainsFunc(f.currentSources(), func(s source) bool {
		return s.namespace == "" || s.namespace == namespace
	})
}

// fieldsOf returns the values of those fields of obj that selector requires.
func fieldsOf(obj metav1.Object, selector fields.Selector) fields.Set {
	set := fields.Set{"metadata.name": obj.GetName(), "metadata.namespace": obj.GetNamespace()}
	var content map[string]any
	for _, requirement := range selector.Requirements() {
		if _, ok := set[requirement.Field]; ok {
			continue
		}
		if content == nil {
			content = map[string]any{}
			if converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj); err == nil {
				content = converted
			}
		}
		value, _, _ := unstructured.NestedString(content, strings.Split(requirement.Field, ".")...)
		set[requirement.Field] = value
	}
	return set
}

// Resource returns the group and the plural name of the resource that the informer
// watches, such as deployments.apps: empty as far as neither the client nor the Go
// type tells. It sends no request.
func (i *Informer[T]) Resource() schema.GroupResource {
	return resourceFor[T](i.feed.currentSources()[0]).GroupResource()
}

// resourceFor returns the resource that a source reads, by its client or else by
// the Go type.
func resourceFor[T Object](s source) schema.GroupVersionResource {
	if s.resource.Resource != "" {
		return s.resource
	}
	if kind, _, ok := builtIn(reflect.TypeFor[T]()); ok {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		return plural
	}
	return s.resource
}

// Mapping returns the kind, the resource and the scope of the objects, as far as
// Options, client and Go type tell: an unknown scope is nil, an unknown resource
// is empty, and so is the version if the group is unknown. It sends no request.
//
// Errors: an Options.Kind that is not what the client reads.
func (i *Informer[T]) Mapping() (meta.RESTMapping, error) {
	first := i.feed.currentSources()[0]
	m := meta.RESTMapping{Resource: resourceFor[T](first)}
	m.GroupVersionKind = m.Resource.GroupVersion().WithKind(i.Kind())
	switch scopeOf[T](&i.options, i.feed.connect != nil || first.namespace != "" || first.boundTo != "") {
	case meta.RESTScopeNameRoot:
		m.Scope = meta.RESTScopeRoot
	case meta.RESTScopeNameNamespace:
		m.Scope = meta.RESTScopeNamespace
	}
	return m, i.checkKind(first.resource.Resource)
}

// scopeOf returns the scope of a kind, as far as options, client and Go type tell:
// empty if it is unknown. bound says that the client is for some namespaces.
func scopeOf[T Object](o *Options, bound bool) meta.RESTScopeName {
	_, clusterScoped, builtIn := builtIn(reflect.TypeFor[T]())
	switch {
	case o.Scope != "":
		return o.Scope
	case bound, builtIn && !clusterScoped:
		return meta.RESTScopeNameNamespace
	case builtIn:
		return meta.RESTScopeNameRoot
	}
	return ""
}

// checkKind compares Options.Kind with the client's resource, or with the Go type.
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
		return option.Wrong("informer.Options.Kind", kind, "the client reads %q", resource)
	case t.Kind() == reflect.Pointer && !isGeneric(t.Elem()):
		return option.Wrong("informer.Options.Kind", kind, "the Go type is %s", t)
	}
	return nil
}

// isGeneric reports whether one Go type serves many kinds.
func isGeneric(t reflect.Type) bool {
	return t.Name() == "Unstructured" || strings.HasPrefix(t.Name(), "PartialObjectMetadata")
}

// builtIn returns the kind and the scope of a Go type of k8s.io/api. Clients do not
// say whether a kind is cluster-scoped, so there is a table: a test compares it
// with client-go.
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
