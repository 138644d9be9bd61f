package informer

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Defaults of Options.
const (
	DefaultSyncWarning  = 10 * time.Second
	DefaultStreamIdle   = 30 * time.Second
	DefaultWatchIdle    = 5 * time.Minute
	DefaultFirstBackoff = 800 * time.Millisecond
	DefaultMaxBackoff   = 30 * time.Second
)

// Options of an Informer. Nil and zero fields mean the defaults.
type Options struct {
	// Name in logs, errors and metrics. The default is the plural of the kind,
	// such as "nodes".
	Name string
	// Kind of the objects, if the Go type does not tell: unstructured and
	// metadata-only objects have the kind of their first object by default.
	Kind string
	// Scope says whether the objects have a namespace, such as that of a
	// RESTMapping (mapping.Scope.Name()). reconcile.Owned needs it. Defaults to
	// what the client and the Go type tell: kinds of k8s.io/api, clients bound to
	// a namespace, and ForNamespaces need none.
	Scope meta.RESTScopeName
	// Namespaces to watch, for informers made with ForNamespaces. None means
	// all namespaces.
	Namespaces []string
	// LabelSelector such as "app=web,tier!=cache": the server sends only what
	// matches.
	LabelSelector string
	// FieldSelector such as "spec.nodeName=node-1". Servers know few fields.
	FieldSelector string
	// IndexLabels are label keys with few objects per value, such as "app":
	// Snapshot.Select finds the objects of one value by an index.
	IndexLabels []string
	// Transform edits an object before it is stored, to drop what nobody
	// reads. It must keep name, namespace, UID and resourceVersion, and must be
	// idempotent.
	Transform func(Object)
	// DropManagedFields stores objects without metadata.managedFields.
	DropManagedFields bool
	// NoSharing keeps every object by itself. By default equal parts of objects
	// (labels, containers, managed fields, …) are stored once, but for those with
	// a resource.Quantity outside of a map, which writes to itself when it is read.
	NoSharing bool
	// Mutations says when to look for objects that somebody has edited in
	// place: InTests by default. A resource.Quantity outside of a map is not
	// compared: it writes to itself when it is read.
	Mutations Detection
	// PageSize of a list that is not streamed; 0 leaves it to client-go.
	PageSize int64

	// SyncWarning is how long the first list may take until a log line says
	// what it is waiting for; the line is repeated at twice the interval each
	// time.
	SyncWarning time.Duration
	// StreamIdle is how long a streaming list may bring neither an object nor
	// the bookmark that ends it, until it is given up for a plain list.
	StreamIdle time.Duration
	// WatchIdle is how long a watch may bring neither an event nor a bookmark
	// until it counts as stalled and is opened again. Only watches of servers
	// that send bookmarks are judged.
	WatchIdle time.Duration
	// FirstBackoff and MaxBackoff bound the pauses between failed attempts to
	// list or watch: they double, with jitter.
	FirstBackoff, MaxBackoff time.Duration
}

func (o *Options) withDefaults() Options {
	if o == nil {
		o = &Options{}
	}
	out := *o
	out.SyncWarning = cmp.Or(o.SyncWarning, DefaultSyncWarning)
	out.StreamIdle = cmp.Or(o.StreamIdle, DefaultStreamIdle)
	out.WatchIdle = cmp.Or(o.WatchIdle, DefaultWatchIdle)
	out.FirstBackoff = cmp.Or(o.FirstBackoff, DefaultFirstBackoff)
	out.MaxBackoff = max(cmp.Or(o.MaxBackoff, DefaultMaxBackoff), out.FirstBackoff)
	return out
}

func (o *Options) validate() error {
	var faults []error
	if _, err := labels.Parse(o.LabelSelector); err != nil {
		faults = append(faults, fmt.Errorf("options: LabelSelector %q: %w", o.LabelSelector, err))
	}
	if _, err := fields.ParseSelector(o.FieldSelector); err != nil {
		faults = append(faults, fmt.Errorf("options: FieldSelector %q: %w", o.FieldSelector, err))
	}
	for _, namespace := range o.Namespaces {
		for _, why := range validation.IsDNS1123Label(namespace) {
			faults = append(faults, fmt.Errorf("options: Namespaces: %q: %s", namespace, why))
		}
	}
	if o.Scope != "" && o.Scope != meta.RESTScopeNameNamespace && o.Scope != meta.RESTScopeNameRoot {
		faults = append(faults, fmt.Errorf("options: Scope %q: must be %q or %q",
			o.Scope, meta.RESTScopeNameNamespace, meta.RESTScopeNameRoot))
	}
	if o.Mutations > Never {
		faults = append(faults, fmt.Errorf("options: Mutations %d: must be InTests, Always or Never", o.Mutations))
	}
	if o.PageSize < 0 {
		faults = append(faults, fmt.Errorf("options: PageSize %d: must not be negative", o.PageSize))
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"SyncWarning", o.SyncWarning},
		{"StreamIdle", o.StreamIdle},
		{"WatchIdle", o.WatchIdle},
		{"FirstBackoff", o.FirstBackoff},
		{"MaxBackoff", o.MaxBackoff},
	} {
		if d.value < 0 {
			faults = append(faults, fmt.Errorf("options: %s %s: must not be negative", d.field, d.value))
		}
	}
	return errors.Join(faults...)
}
