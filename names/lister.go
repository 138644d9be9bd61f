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

// A Lister returns the names that an outside system keeps.
//
// Names returns all of them, or an error. Names that are missing are only not
// cleaned up, so a Lister that returns some of them without an error does no
// harm; one that returns names which do not exist there does. It must return
// soon after ctx ends, and may return a name twice. The caller does not modify
// the slice.
type Lister interface {
	Names(ctx context.Context) ([]Name, error)
}

// Func is a function used as a [Lister].
type Func func(ctx context.Context) ([]Name, error)

// Names calls f.
func (f Func) Names(ctx context.Context) ([]Name, error) { return f(ctx) }

// Union returns a Lister of the names of all listers, which it calls one after
// the other.
//
// Errors: the errors of all listers that failed, each with its place in the
// arguments. The Union then returns no names, because some of them would not be
// all of them. [NewSweep] refuses a Union with a nil lister.
func Union(listers ...Lister) Lister {
	if slices.ContainsFunc(listers, func(l Lister) bool { return bound.IsNil(l) }) {
		return Func(nil) // NewSweep refuses it
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

// list calls l, and makes an error of a panic.
func list(ctx context.Context, l Lister) (all []Name, err error) {
	defer func() {
		if r := recover(); r != nil {
			all, err = nil, fmt.Errorf("panic: %v\n%s", r, debug.Stack())
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

// Objects returns a Lister of the names that cached objects stand for. For
// example, the Services for which there are Ingresses. marker returns the name
// that an object stands for, and false if the object does not belong to the
// program. It must not modify the object.
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
		var all []Name
		for object := range cache.Snapshot().All() {
			if name, ok := marker(object); ok {
				all = append(all, name)
			}
		}
		return all, nil
	})
}
