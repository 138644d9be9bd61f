package names

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// Func is a function that is a [Lister].
type Func func(ctx context.Context) ([]types.NamespacedName, error)

// Names calls f.
func (f Func) Names(ctx context.Context) ([]types.NamespacedName, error) { return f(ctx) }

// UIDFunc is a function that is a [UIDLister].
type UIDFunc func(ctx context.Context) ([]Name, error)

// NamesWithUIDs calls f.
func (f UIDFunc) NamesWithUIDs(ctx context.Context) ([]Name, error) { return f(ctx) }

// Names calls f and leaves the UIDs out.
func (f UIDFunc) Names(ctx context.Context) ([]types.NamespacedName, error) { return keysOf(f(ctx)) }
