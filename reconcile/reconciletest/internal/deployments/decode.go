package deployments

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// Cache caches the decoded objects of one world for its actors, because most
// objects are unchanged when an actor looks again.
type Cache struct {
	objects map[types.UID]cached
	// sameTemplates records whether the templates of a ReplicaSet and a
	// Deployment are equal. The key consists of their UIDs and
	// resourceVersions.
	sameTemplates map[[4]string]bool
}

type cached struct{ version, object any }

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{objects: map[types.UID]cached{}, sameTemplates: map[[4]string]bool{}}
}

// Objects returns the objects of a resource as values of their Go type. It
// takes unchanged values from seen, and decodes the others. The values share
// their maps, slices and pointers with seen; do not modify these.
func Objects[T any](w *reconciletest.World, seen *Cache, resource string) ([]T, error) {
	objects, err := w.Objects(resource)
	if err != nil {
		return nil, err
	}
	decoded := make([]T, len(objects))
	for i, o := range objects {
		version := o.GetResourceVersion()
		if k, found := seen.objects[o.GetUID()]; found && k.version == version {
			decoded[i] = *k.object.(*T)
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &decoded[i]); err != nil {
			return nil, fmt.Errorf("decoding %s %s/%s: %w", resource, o.GetNamespace(), o.GetName(), err)
		}
		object := decoded[i]
		seen.objects[o.GetUID()] = cached{version: version, object: &object}
	}
	return decoded, nil
}
