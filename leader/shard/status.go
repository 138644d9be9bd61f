package shard

import (
	"time"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/internal/record"
	"github.com/homeostat/homeostat/leader/shard/internal/fleet"
)

var (
	// ErrMoved is the cause with which the context of a slot ends when the slot
	// is assigned to another replica. This replica keeps the slot until the
	// function given to [Shards.Run] returns.
	ErrMoved error = record.DrainingError("the slot moves to another replica")
	// ErrConfig means that this replica divides the keys differently than the
	// recorded configuration says: Options.Slots or Options.By differ or, with
	// package ranges, the recorded ranges were deleted, changed or damaged. A
	// retry does not help; see the package's section on changing the
	// configuration.
	ErrConfig = fleet.ErrConfig
)

// Status describes the owners of all slots, as this replica sees them.
type Status struct {
	Member  leader.Status // this replica's membership
	Members []string      // the live members, sorted
	Slots   []SlotStatus  // the slots, by number
	// Imbalance is the number of objects of the replica with the most, relative
	// to the mean of all replicas. For example, 1.5 means half more than the
	// mean. Stopping all replicas and starting them again chooses ranges that
	// suit the present objects.
	//
	// It is zero while the replica with the most has fewer than 10 objects more
	// than the mean, while the number of objects of a replica is unknown, and
	// without package ranges.
	Imbalance float64
}

// SlotStatus describes the owner of one slot, as this replica sees it.
type SlotStatus struct {
	State State
	Owner string    // empty if the slot has no owner
	Since time.Time // when this replica last saw the slot taken or released, or first saw it
	// Weight is the slot's share of all objects when the ranges were chosen,
	// from 0 to 1. Package ranges assigns the slots to balance the weights of
	// the replicas. Without that package, Weight is zero.
	Weight float64
	// Heavy is the heaviest namespace of the slot if it is too heavy to be
	// balanced, and empty otherwise. A namespace is too heavy if, when the
	// ranges were chosen, it had more objects than a replica's fair share is
	// now, and more than a 64th of all objects. A namespace is not divided, so
	// adding replicas does not relieve its owner.
	Heavy string
}

// State is the state of a slot.
type State string

// The states of a slot.
const (
	Here        State = "here"        // this replica works on the slot
	Elsewhere   State = "elsewhere"   // a live replica owns the slot, but this one does not work on it
	Claimable   State = "claimable"   // any replica may take the slot
	Unavailable State = "unavailable" // requests of the slot's last owner may still arrive
)

// Count returns the number of slots in a state. The counts of the four states
// sum to the number of slots.
func (s Status) Count(state State) int {
	n := 0
	for _, slot := range s.Slots {
		if slot.State == state {
			n++
		}
	}
	return n
}
