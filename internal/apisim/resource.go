package apisim

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/internal/apisim/rules"
)

// Definitions are custom resources for a reconciletest.Case of this module's
// own tests. Others have crd.Definitions.
type Definitions []Resource

// Parts returns the resources.
func (d Definitions) Parts() []Resource { return d }

// Resource describes one kind of object that the server serves.
type Resource struct {
	Group, Version, Resource, Kind string
	Namespaced                     bool
	// Status makes the status a subresource. Writes to the object itself then
	// ignore the status, and writes to /status ignore all other fields. For a
	// built-in kind, writes to /status also change most of the metadata.
	Status bool
	// Singular, ShortNames and Categories are for discovery. Singular defaults
	// to the kind in lower case.
	Singular               string
	ShortNames, Categories []string
	// Selectable lists the fields of a custom resource, such as "spec.color",
	// that a field selector may name in addition to name and namespace. For
	// built-in kinds, the server knows these fields.
	Selectable []string
	// Schema prunes, defaults and validates the objects of a custom resource.
	// If Schema is nil, objects are stored as they are sent.
	Schema Schema

	builtin builtin
}

// builtin holds the properties that only built-in kinds have.
type builtin struct {
	typed           bool // whether objects are decoded through the Go type, which makes writes canonical
	noGeneration    bool
	unconditional   bool // whether an update without a resourceVersion is accepted
	createOnUpdate  bool
	statusAtCreate  bool // whether a new object keeps the status that the caller sent
	deletedObject   bool // whether DELETE answers with the object, not with a Status
	scale           bool
	orphans         bool           // whether DELETE orphans the dependents by default
	fixedGeneration bool           // whether the generation is always 1
	review          bool           // whether create returns the object without storing it; there is no other verb
	statusOnPayload map[string]any // the initial status of a new object
	rules           rules.Rules
}

// GVR returns the group, version and resource.
func (r Resource) GVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
}

func (r Resource) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

func (r Resource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Resource}
}

func (r Resource) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: r.Group, Kind: r.Kind}
}

func (r Resource) apiVersion() string {
	return schema.GroupVersion{Group: r.Group, Version: r.Version}.String()
}
