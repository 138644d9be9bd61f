// Package slots has the interfaces through which controllers use a
// reconcile.Shards of this module. The method Parts of such a Shards returns a
// [Handover]. It says who owns the slots, and hands over what the next owner of
// a slot must know. If the result of Parts is also a [Ranger], each replica
// holds only its own part of the objects.
package slots

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
)

// Ranger is implemented by the Parts of a reconcile.Shards whose slots are
// ranges of namespace hashes, as in the API server's shard selectors. With it,
// the caches of a replica hold only the objects of its own slots. ranges.Shards
// is the implementation.
type Ranger interface { //nolint:interfacebloat // one implementation, for which packages must not know each other
	// Divide waits until the server lists the objects of all caches. The first
	// cache is the primary: Run counts its objects if it chooses the ranges.
	// Call Divide before Run. If ctx ends first, Divide returns the cause of
	// ctx.
	Divide(ctx context.Context, caches []Cache) error
	// RunCache keeps a cache up to date until ctx ends, with the slots that
	// Fill has added. It calls joined when this caller has joined the other
	// users of the cache.
	RunCache(ctx context.Context, c Cache, joined func()) error
	// Remember samples the resourceVersion of a cache until ctx ends. With the
	// samples, Deleted finds the deletions of the time in period before a call.
	Remember(ctx context.Context, primary Cache, period time.Duration)
	// Measure calls objects once a minute until ctx ends, and publishes the
	// result with the membership.
	Measure(ctx context.Context, objects func() int)
	// Fill adds slots to caches. It returns when the caches have all objects of
	// these slots, as new as the server was at the call. drop removes the
	// objects of a slot.
	Fill(ctx context.Context, caches []Cache, slots []int) (drop func(slot int), err error)
	// Deleted calls found with the keys of objects of the given slots that were
	// deleted during the last period, and that the cache primary never had. For
	// example, a period of a minute means the deletions of the last minute.
	Deleted(ctx context.Context, primary Cache, slots []int, period time.Duration, found func(types.NamespacedName)) error
}

// Cache has the methods of an informer that a [Ranger] needs. The informers of
// package informer implement it.
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

// Handover is implemented by the Parts of a reconcile.Shards. It says who owns
// a slot, and passes a few keys from one owner of a slot to the next. These are
// the keys of deleted objects that must still be cleaned up, for example
// because the first clean-up failed. The next owner would not learn of them
// from its cache.
type Handover interface {
	// Owners returns the owners of all slots, by number, as this replica sees
	// them. imbalance is the number of objects of the replica that has the
	// most, divided by the mean of all replicas. It is zero while the number of
	// a replica is unknown, while the replica with the most has fewer than 10
	// objects more than the mean, and without ranges. Owners sends no request.
	Owners() (slots []Status, imbalance float64)
	// Leave replaces the keys that the next owner of a slot gets. Call it
	// before the function of the slot returns. Only the first 100 keys are
	// kept, of at most 16 KiB in total, so put the keys first that the next
	// owner cannot find in any other way. Leave retains the slice; do not
	// modify it.
	Leave(slot int, keys []types.NamespacedName)
	// Left returns the keys that the last owner of a slot has left. Call it
	// while the function of the slot is running. The slice is shared; do not
	// modify it.
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
