package names

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/bound"
)

// A Name is the name of an object, as an outside system keeps it.
type Name struct {
	// Key is the object's namespace and name. The namespace of a cluster-scoped
	// object is empty.
	Key types.NamespacedName
	// UID distinguishes the object from one recreated under the same name. Empty if
	// the outside system does not keep it.
	UID types.UID
}

// A Lister knows the names that an outside system keeps.
//
// Names returns all of them, or an error. A Lister that returns only some of them
// without an error is safe (missing names are not cleaned up); one that invents
// names is not. It must return soon after ctx ends, and may return a name twice.
// The caller does not modify the slice.
type Lister interface {
	Names(ctx context.Context) ([]Name, error)
}

// Func is a function used as a [Lister].
type Func func(ctx context.Context) ([]Name, error)

// Names calls f.
func (f Func) Names(ctx context.Context) ([]Name, error) { return f(ctx) }

// Union lists the names of all listers, one lister after the other.
//
// Errors: those of all listers that failed, each with its place in the arguments.
// Then there are no names at all. With a nil lister, the Union is one that [NewSweep]
// refuses.
func Union(listers ...Lister) Lister {
	if slices.ContainsFunc(listers, func(l Lister) bool { return bound.IsNil(l) }) {
		return Func(nil) // which NewSweep refuses: half of the names would not be all
	}
	return Func(func(ctx context.Context) ([]Name, error) {
		var union []Name
		var errs []error
		for i, l := range listers {
			all, err := list(ctx, l)
			if err != nil {
				errs = append(errs, fmt.Errorf("lister %d of %d: %w", i+1, len(listers), err))
			}
			union = append(union, all...)
		}
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
		return union, nil
	})
}

// list calls l. A panic is an error of l.
func list(ctx context.Context, l Lister) (all []Name, err error) {
	defer func() {
		if r := recover(); r != nil {
			all, err = nil, fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return l.Names(ctx)
}

// A Cache holds the objects of one kind; an informer is one. Its snapshots, of
// type S, are consistent views of it.
type Cache[T any, S interface{ All() iter.Seq[T] }] interface {
	// WaitForSync returns nil once the cache holds its first list.
	WaitForSync(ctx context.Context) error
	// Snapshot returns the objects that the cache holds now.
	Snapshot() S
}

// Objects lists the names that cached objects stand for, such as the Services
// that have Ingresses. The marker returns the name that an object stands for, and
// false if the object is not one of ours. It must not modify the object.
//
// Nil arguments make a Lister that [NewSweep] refuses. Names waits for the cache's
// first list; if its context ends before that, it
// returns the cache's error.
func Objects[T metav1.Object, S interface{ All() iter.Seq[T] }](
	cache Cache[T, S], marker func(T) (Name, bool),
) Lister {
	if bound.IsNil(cache) || marker == nil {
		return Func(nil) // which NewSweep refuses
	}
	return Func(func(ctx context.Context) ([]Name, error) {
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
