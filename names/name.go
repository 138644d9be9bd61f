package names

import (
	"k8s.io/apimachinery/pkg/types"
)

// A Name is an object that an outside system knows.
type Name struct {
	// Key is the object's namespace and name; the namespace of a
	// cluster-scoped object is empty.
	Key types.NamespacedName
	// UID tells the object from its namesakes. Empty if the outside system does
	// not keep it.
	UID types.UID
}

// An Orphan is a name whose object is probably gone.
type Orphan struct {
	Name
	// Replaced means that an object of that key is there, with another UID.
	Replaced bool
}
