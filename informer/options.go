package informer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/internal/option"
)

// Defaults of Options.
const (
	defaultBackoffBase = 800 * time.Millisecond
	defaultBackoffCap  = 30 * time.Second
)

// Values of Options.MutationCheck.
const (
	checkInTests = ""
	checkAlways  = "always"
	checkNever   = "never"
)

// Options of an [Informer]. Nil and zero fields mean the defaults.
type Options struct {
	// Name in logs, errors and metrics. Defaults to the plural of the kind, such
	// as "nodes".
	Name string
	// Kind of the objects, for Go types that serve many kinds. Defaults to the
	// name of the Go type; for unstructured and metadata-only objects, to the kind
	// of the first object.
	Kind string
	// Scope is the scope of the kind, as returned by mapping.Scope.Name() of a
	// RESTMapping. reconcile.Owned needs it. Defaults to the scope that the client and
	// the Go type imply: kinds of k8s.io/api, clients of cluster.Kind, which says itself
	// whether it has namespaces, clients bound to a namespace, and ForNamespaces need no
	// Scope.
	Scope meta.RESTScopeName
	// Namespaces to watch, for informers made with [ForNamespaces]. Defaults to all
	// namespaces.
	Namespaces []string
	// Independent makes the namespaces of an informer of [ForNamespaces] independent of
	// one another, for reconcilers that read only the namespace of their key from it: a
	// controller then reconciles the keys of a namespace as soon as this namespace has
	// been listed, even if another one does not exist or is forbidden. That one is named
	// in the log, on the page and in /readyz, which stays ready, and is tried again until
	// it can be listed. Its keys wait, and nothing in it is taken for deleted. Defaults
	// to waiting for all namespaces.
	Independent bool
	// LabelSelector, such as "app=web,tier!=cache", selects the objects that the server
	// sends. An object that no longer matches is delivered to handlers as Deleted. A
	// controller does not reconcile it: it exists. Defaults to all.
	LabelSelector string
	// FieldSelector, such as "spec.nodeName=node-1", selects the objects that the
	// server sends. Servers support only a few fields: metadata.name,
	// metadata.namespace, and those that the kind, or its CustomResourceDefinition,
	// declares. Defaults to all.
	FieldSelector string
	// Whole keeps the objects of all namespaces on each replica of a controller with
	// reconcile.Options.Shards. Set it for kinds that reconciles of other namespaces
	// read, and for triggers whose mapper returns keys of other namespaces. Defaults to
	// keeping only the objects of the replica's shards.
	Whole bool
	// IndexLabels are label keys with few objects per value, such as "app".
	// [Snapshot.Select] uses an index to find the objects with one value. Defaults to
	// none.
	IndexLabels []string
	// Transform modifies an object before it is stored, to drop what no reader needs.
	// It must keep name, namespace, UID and resourceVersion, and must be idempotent.
	// Dropped fields are missing for every reader. A write that sends such an object
	// back as a whole would delete them on the server. An edit of package patch does
	// not: what is dropped stays, also in the elements of lists, or the edit is refused
	// with an error that names the field. For example, an edit that sets a list that was
	// dropped as a whole is refused.
	//
	//	Transform: func(obj informer.Object) { obj.(*corev1.Pod).Spec.Volumes = nil },
	//
	// Defaults to none.
	Transform func(Object)
	// DropManagedFields stores objects without metadata.managedFields, for a smaller
	// cache. Hot loops are then reported without the name of the other client.
	DropManagedFields bool
	// NoSharing stores every object separately. By default equal parts of objects
	// (labels, containers, managed fields, …) are stored once, except those with a
	// resource.Quantity outside a map, which modifies itself when it is read.
	NoSharing bool
	// MutationCheck says when to look for cached objects that were modified in place:
	// "always", which keeps a copy of every object and is meant for finding a bug, or
	// "never". A resource.Quantity outside a map is not compared. Defaults to looking
	// only in programs built by go test.
	MutationCheck string
	// PageSize of a list that is not streamed. Defaults to client-go's.
	PageSize int64

	// BackoffBase is the first pause between failed attempts to list or watch. The
	// pauses double, with jitter. Defaults to 800 milliseconds.
	BackoffBase time.Duration
	// BackoffCap is the longest of these pauses. Defaults to 30 seconds, or
	// BackoffBase if that is longer.
	BackoffCap time.Duration
}

func (o *Options) withDefaults() Options {
	out := ptr.Deref(o, Options{})
	out.BackoffBase = cmp.Or(out.BackoffBase, defaultBackoffBase)
	out.BackoffCap = cmp.Or(out.BackoffCap, max(defaultBackoffCap, out.BackoffBase))
	return out
}

// validate returns all errors, joined.
func (o *Options) validate() error {
	check := option.Of("informer.Options")
	_, err := labels.Parse(o.LabelSelector)
	check.That(err == nil, "LabelSelector", o.LabelSelector, "%w", err)
	_, err = fields.ParseSelector(o.FieldSelector)
	check.That(err == nil, "FieldSelector", o.FieldSelector, "%w", err)
	for n, namespace := range o.Namespaces {
		for _, why := range validation.IsDNS1123Label(namespace) {
			check.Wrong(fmt.Sprintf("Namespaces[%d]", n), namespace, "%s", why)
		}
	}
	scopes := []meta.RESTScopeName{"", meta.RESTScopeNameNamespace, meta.RESTScopeNameRoot}
	check.That(slices.Contains(scopes, o.Scope), "Scope", o.Scope, "must be one of %q", scopes)
	checks := []string{checkInTests, checkAlways, checkNever}
	check.That(slices.Contains(checks, o.MutationCheck), "MutationCheck", o.MutationCheck, "must be one of %q", checks)
	check.That(o.PageSize >= 0, "PageSize", o.PageSize, option.Negative)
	check.That(o.BackoffBase >= 0, "BackoffBase", o.BackoffBase, option.Negative)
	check.That(o.BackoffCap >= 0, "BackoffCap", o.BackoffCap, option.Negative)
	check.That(o.BackoffCap < 0 || o.BackoffCap >= o.BackoffBase, "BackoffCap", o.BackoffCap,
		"must be at least BackoffBase, %v", o.BackoffBase)
	return check.Err()
}
