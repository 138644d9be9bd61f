package reconcile

import "time"

// The states of a slot.
const (
	SlotHere        = "here"        // this replica works on it
	SlotElsewhere   = "elsewhere"   // a living replica has it
	SlotClaimable   = "claimable"   // it is free to take
	SlotUnavailable = "unavailable" // its owner may be dead; no replica may take it yet
)

// A SlotStatus is who has a slot, as this replica sees it. Shards say it by a
// method EachSlot(func(slot int, state, owner string, since time.Time)).
type SlotStatus struct {
	State string // SlotHere, SlotElsewhere, SlotClaimable or SlotUnavailable
	Owner string // empty if there is none
	Since time.Time
}

// elects returns the Leader or the Shards, or nil.
func (c *Controller) elects() any {
	if c.options.Shards != nil {
		return c.options.Shards
	}
	if c.options.Leader != nil {
		return c.options.Leader
	}
	return nil
}

func (c *Controller) slotStatus() []SlotStatus {
	shards, ok := c.elects().(interface {
		EachSlot(f func(slot int, state, owner string, since time.Time))
	})
	if !ok {
		return nil
	}
	var all []SlotStatus
	shards.EachSlot(func(_ int, state, owner string, since time.Time) {
		all = append(all, SlotStatus{State: state, Owner: owner, Since: since})
	})
	return all
}
