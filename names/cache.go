package names

import (
	"context"
	"fmt"
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Cache holds objects and knows when it holds them all: an informer.
type Cache[T any, S Snapshot[T]] interface {
	// WaitForSync returns nil once the cache holds its first list.
	WaitForSync(ctx context.Context) error
	Snapshot() S
}

// A Snapshot is a consistent view of a [Cache].
type Snapshot[T any] interface{ All() iter.Seq[T] }

// Objects lists the names that the objects of a cache stand for, such as the
// Services for which there are Ingresses. The marker of an object says which
// name that is; false means that the object is not one of ours.
//
// It waits for the cache's first list; if that does not come before its context
// ends, the error is the cache's own.
func Objects[T metav1.Object, S Snapshot[T]](cache Cache[T, S], marker func(T) (Name, bool)) UIDLister {
	return UIDFunc(func(ctx context.Context) ([]Name, error) {
		if err := cache.WaitForSync(ctx); err != nil {
			return nil, fmt.Errorf("waiting for the cache that holds the names: %w", err)
		}
		var all []Name
		for object := range cache.Snapshot().All() {
			if name, ok := marker(object); ok {
				all = append(all, name)
			}
		}
		return all, nil
	})
}
