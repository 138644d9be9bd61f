package names

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/guard"
)

// A Name is the name of an object, as an outside system keeps it.
type Name struct {
	// Key is the object's namespace and name. The namespace of a cluster-scoped
	// object is empty.
	Key types.NamespacedName
	// UID distinguishes the object from one recreated under the same name. It
	// is empty if the outside system does not keep UIDs.
	UID types.UID
}

// A Lister returns the names that an outside system keeps.
//
// Names returns all of these names, or an error. A name that is missing from
// the result is not cleaned up, so an incomplete result does no harm. A name
// that the outside system does not keep does harm, because it may be taken for
// an orphan. So does a name that the program of another cluster keeps there:
// return only the names that this cluster has made. Names must return soon
// after ctx ends, and may return a name twice. The caller does not modify the
// slice.
type Lister interface {
	Names(ctx context.Context) ([]Name, error)
}

// Func is a function used as a [Lister].
type Func func(ctx context.Context) ([]Name, error)

// Names calls f.
func (f Func) Names(ctx context.Context) ([]Name, error) { return f(ctx) }

// Union returns a Lister of the names of all listers. It calls them one after
// the other.
//
// If listers fail, the Union returns their errors, joined, each with the
// lister's position in the arguments. It then returns no names, because the
// result would be incomplete. [NewSweep] refuses a Union with a nil lister.
func Union(listers ...Lister) Lister {
	if slices.ContainsFunc(listers, func(l Lister) bool { return bound.IsNil(l) }) {
		return Func(nil) // NewSweep refuses it
	}
	return Func(func(ctx context.Context) ([]Name, error) {
		var union []Name
		var errs []error
		for i, l := range listers {
			listed, err := list(ctx, l)
			if err != nil {
				errs = append(errs, fmt.Errorf("lister %d of %d: %w", i+1, len(listers), err))
			}
			union = append(union, listed...)
		}
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
		return union, nil
	})
}

// list calls l, and returns a panic as an error.
func list(ctx context.Context, l Lister) (listed []Name, err error) {
	defer func() {
		if r := recover(); r != nil {
			listed, err = nil, guard.Panicked(r)
		}
	}()
	return l.Names(ctx)
}

// A Cache holds the objects of one kind. An informer is a Cache. Its snapshots,
// of type S, are consistent views of it.
type Cache[T any, S interface{ All() iter.Seq[T] }] interface {
	// WaitForSync returns nil once the cache holds its first list.
	WaitForSync(ctx context.Context) error
	// Snapshot returns the objects that the cache holds now.
	Snapshot() S
}

// Objects returns a Lister of the names that cached objects stand for. It is
// for programs whose results are objects in the cluster. For example, a
// ConfigMap with the annotation "example.com/for: web" may stand for the
// Service web. marker returns the name that an object stands for, and false if
// the object does not belong to the program. It must not modify the object.
//
// Names waits for the cache's first list. If its context ends before that, it
// returns the cache's error. [NewSweep] refuses a Lister that was made with nil
// arguments.
func Objects[T metav1.Object, S interface{ All() iter.Seq[T] }](
	cache Cache[T, S], marker func(T) (Name, bool),
) Lister {
	if bound.IsNil(cache) || marker == nil {
		return Func(nil) // NewSweep refuses it
	}
	return Func(func(ctx context.Context) ([]Name, error) {
		if err := cache.WaitForSync(ctx); err != nil {
			return nil, fmt.Errorf("waiting for the cache that holds the names: %w", err)
		}
		var listed []Name
		for object := range cache.Snapshot().All() {
			if name, ok := marker(object); ok {
				listed = append(listed, name)
			}
		}
		return listed, nil
	})
}
