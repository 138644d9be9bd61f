package deployments

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// Known is the memory of the actors of one world: most objects are the same
// when they look again.
type Known struct {
	objects map[types.UID]known
	same    map[[4]string]bool // templates, by the UIDs and versions of a ReplicaSet and a Deployment
}

type known struct{ version, object any }

// NewKnown knows nothing.
func NewKnown() *Known { return &Known{objects: map[types.UID]known{}, same: map[[4]string]bool{}} }

// Objects returns the objects of a resource as values of their Go type. They
// are shared; do not modify them.
func Objects[T any](w *reconciletest.World, seen *Known, resource string) ([]T, error) {
	objects, err := w.Objects(resource)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(objects))
	for i, o := range objects {
		version := o.GetResourceVersion()
		if k, found := seen.objects[o.GetUID()]; found && k.version == version {
			all[i] = *k.object.(*T)
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &all[i]); err != nil {
			return nil, fmt.Errorf("decoding %s %s/%s: %w", resource, o.GetNamespace(), o.GetName(), err)
		}
		object := all[i]
		seen.objects[o.GetUID()] = known{version: version, object: &object}
	}
	return all, nil
}
