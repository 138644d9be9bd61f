package shard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/internal/record"
)

// Status is the owners of all slots, as this replica sees them.
type Status struct {
	Member  leader.Status // this replica's membership
	Members []string      // the replicas that slots may go to, sorted
	Slots   []SlotStatus  // by number
}

// SlotStatus is the owner of one slot, as this replica sees it.
type SlotStatus struct {
	State State
	Owner string    // empty if there is none
	Since time.Time // when this replica saw the slot's record change
}

// State is the state of a slot.
type State string

// The states of a slot.
const (
	Here        State = "here"        // this replica works on it
	Elsewhere   State = "elsewhere"   // another living replica owns it
	Claimable   State = "claimable"   // it may be taken
	Unavailable State = "unavailable" // its owner may be dead, but it may not be taken yet
)

// Count returns the number of slots in a state.
func (s Status) Count(state State) int {
	n := 0
	for _, slot := range s.Slots {
		if slot.State == state {
			n++
		}
	}
	return n
}

// Status returns the owners of all slots, and since when they own them. It
// sends no request.
func (s *Shards) Status() Status {
	now, member := s.now(), s.elector.Status()
	s.mu.Lock()
	defer s.mu.Unlock()
	status := Status{Member: member, Slots: make([]SlotStatus, len(s.view.slots))}
	alive := map[string]bool{}
	for _, o := range s.view.members {
		if holder := record.Holder(o.Lease); holder != nobody && now.Before(o.FreeAt(s.view.duration)) {
			alive[holder] = true
			status.Members = append(status.Members, holder)
		}
	}
	slices.Sort(status.Members)
	for slot := range s.view.slots {
		one := SlotStatus{
			State: Elsewhere, Owner: s.view.owner(slot, member.Identity, now), Since: s.view.slots[slot].Since,
		}
		switch {
		case s.working[slot]:
			one.State = Here
		case one.Owner == nobody:
			one.State = Claimable
		case !alive[one.Owner]:
			one.State = Unavailable
		}
		status.Slots[slot] = one
	}
	return status
}

// String reads like "21 of 64 slots are here; members: a_02ab.1, b_77c0.1".
func (s *Shards) String() string {
	status := s.Status()
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d slots are here; members: %s",
		status.Count(Here), len(status.Slots), strings.Join(status.Members, ", "))
	if len(status.Members) == 0 {
		b.WriteString("none")
	}
	for _, state := range []State{Claimable, Unavailable} {
		if n := status.Count(state); n > 0 {
			fmt.Fprintf(&b, "; %d are %s", n, state)
		}
	}
	if err := s.Ready(); err != nil {
		fmt.Fprintf(&b, " (%v)", err)
	}
	return b.String()
}
