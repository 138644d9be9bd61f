package leader

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ShardStatus is who has which slots, as this replica sees it.
type ShardStatus struct {
	Member  Status   // this replica's membership
	Members []string // the replicas that slots may go to
	Slots   []SlotStatus

	// Owned, Claimable and Unavailable add up to the number of slots: those
	// that a living replica has, those that may be taken, and those of a
	// replica that may live or not.
	Owned, Claimable, Unavailable int
	// Mine is how many slots this replica works on.
	Mine int
}

// SlotStatus is the state of one slot.
type SlotStatus struct {
	Owner     string    // empty if there is none
	Since     time.Time // when this replica saw the record change
	Claimable bool
	Alive     bool // the owner's lease has not expired
	Mine      bool // the function of this slot runs here
}

// Status returns who has which slots, and since when.
func (s *Shards) Status() ShardStatus {
	now, member := s.now(), s.elector.Status()
	s.mu.Lock()
	defer s.mu.Unlock()
	status := ShardStatus{Member: member, Slots: make([]SlotStatus, len(s.view.slots))}
	alive := map[string]bool{}
	for _, o := range s.view.members {
		if holder := holderOf(o.lease); holder != nobody && now.Before(o.freeAt(s.view.duration)) {
			alive[holder] = true
			status.Members = append(status.Members, holder)
		}
	}
	for slot := range s.view.slots {
		owner := s.view.owner(slot, member.Identity, now)
		status.Slots[slot] = SlotStatus{
			Owner: owner, Since: s.view.slots[slot].since,
			Claimable: owner == nobody, Alive: alive[owner], Mine: s.working[slot],
		}
		switch {
		case owner == nobody:
			status.Claimable++
		case alive[owner]:
			status.Owned++
		default:
			status.Unavailable++
		}
	}
	slices.Sort(status.Members)
	status.Mine = len(s.working)
	return status
}

// EachSlot calls f for each slot, in their order: its state is "here",
// "elsewhere", "claimable" or "unavailable". It is for packages that show them.
func (s *Shards) EachSlot(f func(slot int, state, owner string, since time.Time)) {
	status := s.Status()
	for slot, one := range status.Slots {
		state := "elsewhere"
		switch {
		case one.Mine:
			state = "here"
		case one.Claimable:
			state = "claimable"
		case !one.Alive:
			state = "unavailable"
		}
		f(slot, state, one.Owner, one.Since)
	}
}

// String reads like "21 of 64 slots are here; members: a_02ab.1, b_77c0.1".
func (s *Shards) String() string {
	status := s.Status()
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d slots are here; members: %s",
		status.Mine, len(status.Slots), strings.Join(status.Members, ", "))
	if len(status.Members) == 0 {
		b.WriteString("none")
	}
	if n := status.Claimable; n > 0 {
		fmt.Fprintf(&b, "; %d are claimable", n)
	}
	if n := status.Unavailable; n > 0 {
		fmt.Fprintf(&b, "; %d are unavailable", n)
	}
	if err := s.Ready(); err != nil {
		fmt.Fprintf(&b, " (%v)", err)
	}
	return b.String()
}
