package informer

import (
	"reflect"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/internal/selectable"
)

// scope is the part of a kind that an informer caches, but for its namespaces.
type scope struct {
	labels labels.Selector
	fields fields.Selector
	// clusterScoped says that the kind is known to have no namespaces.
	clusterScoped bool
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

// admits reports whether an object of key may be selected by s, as far as a key shows
// that. A key that has a namespace although the kind has none is that of no object: a
// mapper may have given the name of a node the namespace of a Pod.
func (s scope) admits(key types.NamespacedName) bool {
	if s.clusterScoped && key.Namespace != "" {
		return false
	}
	for _, r := range s.fields.Requirements() {
		value, ok := map[string]string{"metadata.name": key.Name, "metadata.namespace": key.Namespace}[r.Field]
		if ok && (value == r.Value) == (r.Operator == selection.NotEquals) {
			return false
		}
	}
	return true
}

// matchesFields reports whether an object of a resource is selected by s, as far as that
// is known: the values by which a server selects are not always those of the object.
func (s scope) matchesFields(obj metav1.Object, resource schema.GroupResource) (matches, known bool) {
	known = true
	for _, r := range s.fields.Requirements() {
		switch value, is := selectedBy(obj, resource, r.Field); {
		case !is:
			known = false
		case (value == r.Value) == (r.Operator == selection.NotEquals):
			return false, true
		}
	}
	return known, known
}

// selectedBy returns the value of a field as the server has it, and whether that is known:
// not of objects with metadata only, or of a Go type that may lack the field.
func selectedBy(obj metav1.Object, resource schema.GroupResource, field string) (value string, known bool) {
	switch field {
	case "metadata.name":
		return obj.GetName(), true
	case "metadata.namespace":
		return obj.GetNamespace(), true
	}
	rule, known := selectable.RuleFor(resource, field)
	if !known {
		return "", false
	}
	_, _, whole := builtIn(reflect.TypeOf(obj))
	var content map[string]any
	if u, ok := obj.(*unstructured.Unstructured); ok {
		content, whole = u.Object, true
	} else if converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj); err == nil {
		content = converted
	}
	value, found, known := rule.Value(content)
	return value, known && (found || whole)
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

// scopeOf returns the scope of a kind, as far as options, client and Go type tell:
// empty if it is unknown. said is what the client says, if it does, and bound says that it
// is for some namespaces.
func scopeOf[T Object](o *Options, said meta.RESTScopeName, bound bool) meta.RESTScopeName {
	_, clusterScoped, builtIn := builtIn(reflect.TypeFor[T]())
	switch {
	case o.Scope != "":
		return o.Scope
	case said != "":
		return said
	case bound, builtIn && !clusterScoped:
		return meta.RESTScopeNameNamespace
	case builtIn:
		return meta.RESTScopeNameRoot
	}
	return ""
}

// checkScope returns what contradicts the scope that the client of a source says.
func checkScope(o *Options, of source) error {
	namespaces := o.Namespaces
	if of.reach.namespace != "" {
		namespaces = []string{of.reach.namespace}
	}
	switch {
	case of.scope != "" && o.Scope != "" && of.scope != o.Scope:
		return option.Wrong("informer.Options.Scope", string(o.Scope), "the client says %q: leave it empty, and declare "+
			"a kind without namespaces by cluster.Kind.ClusterScoped", of.scope)
	case of.scope == meta.RESTScopeNameRoot && len(namespaces) > 0:
		return option.Wrong("informer.Options.Namespaces", namespaces, "must be empty: the kind has no namespaces")
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

// identity has the names of an informer.
type identity struct {
	name string // Options.Name
	kind atomic.Pointer[string]
}

func newIdentity[T Object](o *Options) *identity {
	id := &identity{name: o.Name}
	kind := o.Kind
	if t := reflect.TypeFor[T](); kind == "" && t.Kind() == reflect.Pointer && !isGeneric(t.Elem()) {
		kind = t.Elem().Name()
	}
	if kind != "" {
		id.kind.Store(&kind)
	}
	return id
}

// learnKind remembers the kind of an object if that is not known.
func (i *identity) learnKind(object Object) {
	if i.kind.Load() == nil {
		if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "" {
			i.kind.Store(&kind)
		}
	}
}

func (i *identity) Kind() string {
	if kind := i.kind.Load(); kind != nil {
		return *kind
	}
	return ""
}

func (i *identity) Name() string {
	if i.name != "" {
		return i.name
	}
	kind := i.Kind()
	if kind == "" {
		return "objects"
	}
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
	return plural.Resource
}
