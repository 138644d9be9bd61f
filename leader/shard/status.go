package shard

import (
	"time"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/internal/record"
	"github.com/homeostat/homeostat/leader/shard/internal/fleet"
)

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
