package shard

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/internal/record"
	"github.com/homeostat/homeostat/leader/shard/internal/fleet"
)

// Assignment divides keys into slots and assigns the slots to the replicas. [Shards] is
// one; a controller of package reconcile accepts any. It may also implement [Reporter],
// and the interfaces Elector and LeaseNamer of package reconcile/inspect.
//
// The Pods of a StatefulSet could divide the keys by their ordinals:
//
//	func (o ordinal) Slot(key types.NamespacedName) int { return hash(key) % o.replicas }
//
//	func (o ordinal) Run(ctx context.Context, fn func(ctx context.Context, slot int) error) error {
//		return fn(ctx, o.replica)
//	}
//
// But then nothing replaces a Pod that hangs, and nothing refuses the last writes of a
// Pod that was deleted by force.
type Assignment interface {
	// Run calls fn for each slot that this replica gets, until ctx ends. Each call has its
	// own goroutine, and a context that ends when the slot must be released. fn must return
	// once no reconcile of the slot is running. No other replica gets the slot before that
	// if the context's cause is a [Draining] that reports true; otherwise another may have
	// it already. Run returns after the last call of fn.
	Run(ctx context.Context, fn func(ctx context.Context, slot int) error) error
	// Slot returns the slot of a key, from 0. It must be the same in all replicas while Run
	// is running, or change on a replica only while fn is running there for neither the old
	// nor the new slot. It is called from many goroutines, and must not block.
	Slot(key types.NamespacedName) int
}

// Reporter is an optional interface of an [Assignment] that knows the owners of
// its slots. Metrics and status pages show them.
type Reporter interface {
	// Status may be called at any time, from any goroutine. It must not send requests, since
	// it is called on every scrape.
	Status() Status
}

// Draining is the cause with which the context of a slot ends if this replica keeps the
// slot until the function returns. In that case reconciles in flight may finish; after
// any other cause they must be cancelled. [ErrMoved] and [leader.ErrStopping] implement
// it.
type Draining interface {
	error
	// Draining reports whether this replica keeps the slot.
	Draining() bool
}

var _ Draining = record.DrainingError("")

var (
	// ErrMoved is the cause with which the context of a slot ends when the slot is assigned
	// to another replica. This replica keeps the slot until the function returns.
	ErrMoved error = record.DrainingError("the slot moves to another replica")
	// ErrConfig means that this replica's Options.Slots or Options.By differ
	// from those of the other replicas. A retry does not help: see the package's
	// section on changing the configuration.
	ErrConfig = fleet.ErrConfig
)

// Status describes the owners of all slots, as this replica sees them.
type Status struct {
	Member  leader.Status // this replica's membership
	Members []string      // the live members, sorted
	Slots   []SlotStatus  // by number
	// Imbalance is how many objects the replica with the most has, relative to the mean of
	// all: 1.5 is half more. Stopping all replicas and starting them again chooses ranges
	// that suit the present objects. It is zero while they are balanced, while the objects of
	// a replica are not known, and unless the slots are [Ranges].
	Imbalance float64
}

// SlotStatus describes the owner of one slot, as this replica sees it.
type SlotStatus struct {
	State State
	Owner string    // empty if there is none
	Since time.Time // when this replica saw the slot's record change
	// Weight is the slot's share of all objects when the ranges were chosen, from 0 to 1, by
	// which slots are assigned. It is zero unless the slots are [Ranges].
	Weight float64
	// Heavy is the heaviest namespace of the slot, if it had more objects when the ranges
	// were chosen than a replica's fair share is now, and more than a 64th of all. It is
	// not divided, so adding replicas does not relieve its owner. Empty if there is none.
	Heavy string
}

// State is the state of a slot.
type State string

// The states of a slot.
const (
	Here        State = "here"        // this replica works on it
	Elsewhere   State = "elsewhere"   // another live replica owns it
	Claimable   State = "claimable"   // it may be taken
	Unavailable State = "unavailable" // requests of its last owner may still arrive
)

// Count returns the number of slots in a state. The counts of the four states add up
// to the number of slots.
func (s Status) Count(state State) int {
	n := 0
	for _, slot := range s.Slots {
		if slot.State == state {
			n++
		}
	}
	return n
}
