package names

import (
	"context"
	"fmt"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/types"
)

// A Lister knows the names that an outside system keeps.
//
// Names returns all of them, or an error. A Lister that returns a part without
// an error is safe (what is missing is not cleaned), one that invents names is
// not. It must return soon after ctx ends, and may return a name twice.
type Lister interface {
	Names(ctx context.Context) ([]types.NamespacedName, error)
}

// A UIDLister is a [Lister] that knows UIDs, too: of all its names or of some.
// A [Sweep] then calls NamesWithUIDs alone.
type UIDLister interface {
	Lister
	NamesWithUIDs(ctx context.Context) ([]Name, error)
}

// list asks l in the richest way that it knows. A panic is an error of l.
func list(ctx context.Context, l Lister) (all []Name, err error) {
	defer func() {
		if r := recover(); r != nil {
			all, err = nil, fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	if with, ok := l.(UIDLister); ok {
		return with.NamesWithUIDs(ctx)
	}
	keys, err := l.Names(ctx)
	if err != nil {
		return nil, err
	}
	all = make([]Name, len(keys))
	for i, key := range keys {
		all[i].Key = key
	}
	return all, nil
}

// keysOf adapts NamesWithUIDs to Names.
func keysOf(all []Name, err error) ([]types.NamespacedName, error) {
	if err != nil {
		return nil, err
	}
	keys := make([]types.NamespacedName, len(all))
	for i, name := range all {
		keys[i] = name.Key
	}
	return keys, nil
}
