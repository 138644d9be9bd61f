package apisim

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Definitions are custom resources that a user's test passes on without naming their type.
type Definitions []Resource

// Parts returns them.
func (d Definitions) Parts() []Resource { return d }

// Resource describes one kind of object that the server serves.
type Resource struct {
	Group, Version, Resource, Kind string
	Namespaced                     bool
	// Status splits the object: the main resource ignores status, /status ignores the rest.
	Status bool
	// Singular, ShortNames and Categories are for discovery. Singular defaults to the kind in lower case.
	Singular               string
	ShortNames, Categories []string
	// Selectable are the fields of a custom resource that a field selector may name, beside name and namespace, such as
	// "spec.color". Those of built-in kinds are known.
	Selectable []string
	// Schema prunes, defaults and validates the objects of a custom resource. nil: they are stored as they are sent.
	Schema Schema

	builtin builtin
}

// builtin holds the parts of a resource that only built-in kinds have.
type builtin struct {
	typed           bool // decoded through the Go type, so that writes are canonical
	noGeneration    bool
	unconditional   bool // an update without a resourceVersion is accepted
	createOnUpdate  bool
	statusAtCreate  bool // a new object keeps the status that it comes with
	deletedObject   bool // DELETE answers with the object, not with a Status
	scale           bool
	orphans         bool           // a DELETE that does not say otherwise leaves the dependents alone
	fixedGeneration bool           // it is 1 forever
	review          bool           // is answered, not stored: create only
	statusOnPayload map[string]any // the initial status of a new object
	rules           rules
}

// GVR is the resource's full name.
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
