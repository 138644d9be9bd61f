// Package slots has what a reconcile.Shards of this module shows to controllers by its
// method Parts, which returns a [Handover]: who owns their slots, how they hand over what
// the next owner of a slot must know, and, if that is a [Ranger] as well, how they hold their own part of the
// objects.
package slots

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
)

// Ranger is the parts of a reconcile.Shards whose slots are ranges of the hash
// of the namespace, as the API server's shard selectors have them: then the caches of a
// replica hold the objects of its own slots only. ranges.Shards implement it.
type Ranger interface { //nolint:interfacebloat // one implementation, for which packages must not know each other
	// Divide makes sure that the server lists the objects of all caches, of which the
	// primary is the first: Run counts its objects if it chooses the ranges. Call it before
	// Run. It returns the error of ctx.
	Divide(ctx context.Context, caches []Cache) error
	// RunCache keeps a cache of the slots that Fill has added up to date until ctx ends. It
	// calls joined when this caller has joined the others that use the cache.
	RunCache(ctx context.Context, c Cache, joined func()) error
	// Remember notes how far a cache is, now and then until ctx ends, so that Deleted can
	// look that far back.
	Remember(ctx context.Context, primary Cache, ago time.Duration)
	// Measure calls objects once a minute until ctx ends, and publishes what it returns with
	// the membership.
	Measure(ctx context.Context, objects func() int)
	// Fill adds slots to caches, and returns when the caches have all objects of these slots,
	// as new as the server was at the call. drop removes the objects of a slot.
	Fill(ctx context.Context, caches []Cache, slots []int) (drop func(slot int), err error)
	// Deleted calls found with the keys of objects that were deleted up to that long
	// ago, before a cache had them.
	Deleted(ctx context.Context, primary Cache, slots []int, ago time.Duration, found func(types.NamespacedName)) error
}

// Cache has the methods of an informer that a [Ranger] needs. Those of package informer
// implement it.
type Cache interface { //nolint:interfacebloat // it hides a type parameter, not an implementation
	RunShards(ctx context.Context, joined func()) error
	AddShards(
		ctx context.Context, shards ...sharding.ShardRangeRequirement,
	) (remove func(...sharding.ShardRangeRequirement), err error)
	CountNamespaces(ctx context.Context) (map[string]int, error)
	SeenResourceVersion() string
	ServerResourceVersion(ctx context.Context) (string, error)
	DeletedSince(
		ctx context.Context, rv string, deleted func(types.NamespacedName), shards ...sharding.ShardRangeRequirement,
	) error
}

// Handover is the parts of a reconcile.Shards. It tells who owns a slot, and takes a few keys from one
// owner of a slot to the next: those of deleted objects that are still to be cleaned up.
// It may know of them by nothing else, above all where that has failed.
type Handover interface {
	// Owners returns the owners of all slots, by number, as this replica sees them, and how
	// many objects the replica with the most has, relative to the mean of all: zero while
	// that is not known, or even. It sends no request.
	Owners() (slots []Status, imbalance float64)
	// Leave replaces the keys that the next owner of a slot gets. Put keys that the next
	// owner cannot find in any other way first. Call it before the function of the slot
	// returns. The first 100 keys are kept, of 16 KiB in all. The slice is retained; do not
	// modify it.
	Leave(slot int, keys []types.NamespacedName)
	// Left returns the keys that the last owner of a slot has left. Call it while the
	// function of the slot runs. The slice is shared; do not modify it.
	Left(slot int) []types.NamespacedName
}

// Status describes the owner of one slot; see shard.SlotStatus.
type Status struct {
	State  string
	Owner  string
	Since  time.Time
	Weight float64
	Heavy  string
}
