package informer

import (
	"cmp"
	"flag"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/internal/clients"
	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/internal/selectable"
)

// Defaults of Options.
const (
	defaultBackoffBase = 800 * time.Millisecond
	defaultBackoffCap  = 30 * time.Second

	defaultWatchNamespaceAbove = 100
)

// Values of Options.MutationCheck.
const (
	checkInTests = ""
	checkAlways  = "always"
	checkNever   = "never"
)

// Options configures an [Informer]. Nil and zero fields mean the defaults.
type Options struct {
	// Name is used in logs, errors and metrics. Defaults to the plural of the
	// kind, such as "nodes", or to "objects" while the kind is not known.
	Name string
	// Kind is the kind of the objects, for Go types that are used for many
	// kinds. Defaults to the name of the Go type and, for unstructured and
	// metadata-only objects, to the kind of the first object.
	Kind string
	// Scope is the scope of the kind, as returned by mapping.Scope.Name() of a
	// RESTMapping. reconcile.Owned needs it. Defaults to the scope that the
	// client and the Go type imply. For example, it is not needed for kinds of
	// k8s.io/api, for clients of cluster.Kind, for clients that are bound to a
	// namespace, or with ForNamespaces.
	Scope meta.RESTScopeName
	// Namespaces are the namespaces to watch, for informers made with
	// [ForNamespaces]. Defaults to all namespaces.
	Namespaces []string
	// Independent makes the namespaces of an informer of [ForNamespaces]
	// independent of each other. It is for reconcilers that only read the
	// namespace of their key. A controller then reconciles the keys of a
	// namespace as soon as this namespace has been listed, even if a different
	// namespace does not exist or is forbidden. A namespace that cannot be
	// listed is retried. The log, the status page and /readyz name it, but
	// /readyz is ready once one of the namespaces has been listed. Until a
	// namespace has been listed, its keys wait, and no object in it is
	// considered deleted. If its watch fails later, a new leader waits for it
	// only with the keys of this namespace. Defaults to waiting for all
	// namespaces.
	Independent bool
	// LabelSelector selects the objects that the server sends, such as
	// "app=web,tier!=cache". An object that no longer matches is delivered to
	// handlers as Deleted, but a controller does not reconcile its key, because
	// the object exists. The text of labels.Nothing() is empty, and so selects
	// all objects, not none. Defaults to all objects.
	LabelSelector string
	// FieldSelector selects the objects that the server sends, such as
	// "spec.nodeName=node-1". Servers support only a few fields: metadata.name,
	// metadata.namespace, and the fields that the kind, or its
	// CustomResourceDefinition, declares. Defaults to all objects.
	FieldSelector string
	// Whole keeps the objects of all namespaces on each replica of a controller
	// with reconcile.Options.Shards. Set it if reconciles read objects outside
	// the namespace of their key, or if the mapper of a trigger returns keys in
	// other namespaces. Defaults to keeping only the objects of the replica's
	// shards.
	Whole bool
	// IndexLabels are label keys with few objects per value, such as "app".
	// [Snapshot.Select] uses an index to find the objects with one value.
	// Defaults to no index.
	IndexLabels []string
	// Transform modifies an object before it is stored, to drop fields that no
	// reader needs. It must keep name, namespace, UID and resourceVersion, and
	// must be idempotent. It must also keep ownerReferences, labels and
	// finalizers, if package patch or patch/children writes the objects: they
	// identify the owner, and show whether a patch.Finalizer has work to do.
	// deletionTimestamp, generation and the annotations of patch/children stay
	// even if Transform drops them.
	// Keep or drop a list as a whole: an edit may otherwise change the wrong
	// one of two elements that look the same.
	//
	//	Transform: func(obj informer.Object) { obj.(*corev1.Pod).Spec.Volumes = nil },
	//
	// Dropped fields are missing for every reader. A write that sends such an
	// object back as a whole would delete them on the server. An edit of
	// package patch does not: dropped fields stay, also in the elements of
	// lists, or the edit is refused with an error that names the field. For
	// example, an edit is refused if it sets a list that was dropped as a
	// whole.
	//
	// If Transform panics for an object, that object is unreadable; see
	// [Informer.Unreadable]. If it ends its goroutine instead, with
	// runtime.Goexit or t.FailNow, the cache does not sync, and
	// [Informer.WaitForSync] and Status say so.
	//
	// Defaults to no transformation.
	Transform func(Object)
	// DropManagedFields stores objects without metadata.managedFields, for a
	// smaller cache. Reports of hot loops then do not name the client that
	// overwrites a controller's changes, because only metadata.managedFields
	// contains the name.
	DropManagedFields bool
	// NoSharing stores every object separately. By default equal parts of
	// objects (labels, containers, managed fields, …) are stored once. Parts
	// with a resource.Quantity outside a map are never shared, because a
	// Quantity modifies itself when it is read.
	NoSharing bool
	// MutationCheck defines when cached objects are checked for modifications
	// in place: "always", which keeps a copy of every object and is meant for
	// finding a bug, or "never". A resource.Quantity outside a map is not
	// compared. Defaults to checking only in programs built by go test.
	MutationCheck string
	// PageSize is the number of objects in a page of a list that is not
	// streamed. Defaults to client-go's page size.
	PageSize int64

	// WatchNamespaceAbove applies to informers made with [Referenced]. If more
	// than this number of objects in one namespace are referred to, a single
	// watch of the namespace replaces the watches of the individual names. That
	// needs permission to list and watch the kind in the whole namespace;
	// without it, the objects are still watched by name. Objects that nothing
	// refers to are not cached. If the number of references falls to half of
	// this limit, the objects are watched by name again a minute later.
	// Defaults to 100.
	WatchNamespaceAbove int

	// BackoffBase is the first pause between failed attempts to list or watch.
	// The pause doubles after each failure, with jitter. Defaults to 800
	// milliseconds.
	BackoffBase time.Duration
	// BackoffCap limits the doubling of the pause. Jitter is added to it, so a
	// pause may be twice as long. Defaults to 30 seconds, or to BackoffBase if
	// that is longer.
	BackoffCap time.Duration
}

func (o *Options) withDefaults() Options {
	options := ptr.Deref(o, Options{})
	options.WatchNamespaceAbove = cmp.Or(options.WatchNamespaceAbove, defaultWatchNamespaceAbove)
	options.BackoffBase = cmp.Or(options.BackoffBase, defaultBackoffBase)
	options.BackoffCap = cmp.Or(options.BackoffCap, max(defaultBackoffCap, options.BackoffBase))
	return options
}

// validate returns all errors of the options, joined.
func (o *Options) validate() error {
	check := option.Of("informer.Options")
	_, err := labels.Parse(o.LabelSelector)
	check.That(err == nil, "LabelSelector", o.LabelSelector, "%w", err)
	_, err = fields.ParseSelector(o.FieldSelector)
	check.That(err == nil, "FieldSelector", o.FieldSelector, "%w", err)
	for n, namespace := range o.Namespaces {
		for _, problem := range validation.IsDNS1123Label(namespace) {
			check.Wrong(fmt.Sprintf("Namespaces[%d]", n), namespace, "%s", problem)
		}
	}
	scopes := []meta.RESTScopeName{"", meta.RESTScopeNameNamespace, meta.RESTScopeNameRoot}
	check.That(slices.Contains(scopes, o.Scope), "Scope", o.Scope, "must be one of %q", scopes)
	checks := []string{checkInTests, checkAlways, checkNever}
	check.That(slices.Contains(checks, o.MutationCheck), "MutationCheck", o.MutationCheck, "must be one of %q", checks)
	check.That(o.PageSize >= 0, "PageSize", o.PageSize, option.Negative)
	check.That(o.WatchNamespaceAbove >= 0, "WatchNamespaceAbove", o.WatchNamespaceAbove, option.Negative)
	check.That(o.BackoffBase >= 0, "BackoffBase", o.BackoffBase, option.Negative)
	check.That(o.BackoffCap >= 0, "BackoffCap", o.BackoffCap, option.Negative)
	check.That(o.BackoffCap < 0 || o.BackoffCap >= o.BackoffBase, "BackoffCap", o.BackoffCap,
		"must be at least BackoffBase, %v", o.BackoffBase)
	return check.Err()
}

// scope is the part of a kind that an informer caches, apart from its
// namespaces.
type scope struct {
	labels labels.Selector
	fields fields.Selector
	// clusterScoped is true if the kind is known to have no namespaces.
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

// admits reports whether s may select an object with this key, as far as the
// key shows. It reports false for a key with a namespace if the kind has no
// namespaces, because no object has such a key. For example, a mapper may have
// combined the name of a Node with the namespace of a Pod.
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

// matchesFields reports whether s selects an object of a resource, and whether
// that is known. The values by which a server selects are not always the values
// in the object.
func (s scope) matchesFields(obj metav1.Object, resource schema.GroupResource) (matches, known bool) {
	known = true
	for _, r := range s.fields.Requirements() {
		switch value, isKnown := selectedBy(obj, resource, r.Field); {
		case !isKnown:
			known = false
		case (value == r.Value) == (r.Operator == selection.NotEquals):
			return false, true
		}
	}
	return known, known
}

// selectedBy returns the value of a field as the server has it, and whether it
// is known. The value is not known for a field that package selectable does not
// know, for objects with metadata only, or for a Go type that may lack the
// field.
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
	_, _, whole := clients.BuiltIn(reflect.TypeOf(obj))
	var content map[string]any
	if u, ok := obj.(*unstructured.Unstructured); ok {
		content, whole = u.Object, true
	} else if converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj); err == nil {
		content = converted
	}
	value, found, known := rule.Value(content)
	return value, known && (found || whole)
}

// resourceFor returns the resource that a source reads. It is known from the
// client or, failing that, from the Go type.
func resourceFor[T Object](s source) schema.GroupVersionResource {
	if s.resource.Resource != "" {
		return s.resource
	}
	if kind, _, ok := clients.BuiltIn(reflect.TypeFor[T]()); ok {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		return plural
	}
	return s.resource
}

// scopeOf returns the scope of a kind, as far as the options, the client and
// the Go type show it, and "" if it is unknown. said is the scope that the
// client declares, or "" if it does not declare one. bound is true if the
// client is bound to a namespace.
func scopeOf[T Object](o *Options, said meta.RESTScopeName, bound bool) meta.RESTScopeName {
	_, clusterScoped, builtIn := clients.BuiltIn(reflect.TypeFor[T]())
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

// checkScope returns an error if the options contradict the scope that the
// client of a source declares.
func checkScope(o *Options, s source) error {
	namespaces := o.Namespaces
	if s.reach.Namespace != "" {
		namespaces = []string{s.reach.Namespace}
	}
	switch {
	case s.scope != "" && o.Scope != "" && s.scope != o.Scope:
		return option.Wrong("informer.Options.Scope", string(o.Scope), "the client says %q: leave it empty, and declare "+
			"a kind without namespaces by cluster.Kind.ClusterScoped", s.scope)
	case s.scope == meta.RESTScopeNameRoot && len(namespaces) > 0:
		return option.Wrong("informer.Options.Namespaces", namespaces, "must be empty: the kind has no namespaces")
	}
	return nil
}

// identity is the name and the kind of an informer.
type identity struct {
	name string // the name in Options, or empty
	kind atomic.Pointer[string]
}

func newIdentity[T Object](o *Options) *identity {
	id := &identity{name: o.Name}
	kind := o.Kind
	if t := reflect.TypeFor[T](); kind == "" && t.Kind() == reflect.Pointer && !clients.IsGeneric(t.Elem()) {
		kind = t.Elem().Name()
	}
	if kind != "" {
		id.kind.Store(&kind)
	}
	return id
}

// learnKind records the kind of an object if the kind is not known yet.
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

// checksMutations reports whether cached objects are checked for modifications.
func (o *Options) checksMutations() bool {
	inTest := flag.Lookup("test.v") != nil // only test binaries define this flag
	return o.MutationCheck == checkAlways || o.MutationCheck == checkInTests && inTest
}
