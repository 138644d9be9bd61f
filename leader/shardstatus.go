package leader

import "time"

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
	Owner     string    // empty: nobody
	Since     time.Time // when this replica saw the record change
	Claimable bool
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
			Owner: owner, Since: s.view.slots[slot].since, Claimable: owner == nobody, Mine: s.working[slot],
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
	status.Mine = len(s.working)
	return status
}
