package shard

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/leader/internal/record"
)

// Assignment divides keys into slots and assigns the slots to the replicas.
// [Shards] is one; a controller of package reconcile takes any. It may also
// implement [Reporter], fmt.Stringer, and what package reconcile/inspect asks
// of an elector.
type Assignment interface {
	// Run calls fn for each slot that this replica gets, in a goroutine of its
	// own, with a context that ends when the slot is to be released, until ctx
	// ends. fn returns when no reconcile of the slot runs any more. No other
	// replica gets the slot before that if the cause of the context's end is
	// [Draining]; otherwise another replica may have it already.
	Run(ctx context.Context, fn func(ctx context.Context, slot int) error) error
	// Slot returns the slot of a key. It must be the same in all replicas.
	Slot(key types.NamespacedName) int
}

// Reporter is an optional interface of an [Assignment] that knows the owners of
// the slots. Metrics and status pages show them.
type Reporter interface {
	Status() Status
}

// Draining is the cause with which the context of a slot, or of a leadership,
// ends if its owner keeps it until the function returns. Then reconciles in
// flight may finish; after any other cause they must be cancelled.
// [leader.ErrStopping] and [ErrMoved] implement it.
type Draining interface {
	error
	// Draining reports whether the owner keeps the slot until the function
	// returns.
	Draining() bool
}

var (
	_ Assignment = (*Shards)(nil)
	_ Reporter   = (*Shards)(nil)
	_ Draining   = record.Draining("")
)
