package metrics

import (
	"strconv"

	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

var (
	slotOwned = named("homeostat_slot_owned",
		"Whether this replica works on the slot: the sum over the replicas is 1.", "controller", "slot")
	slots = named("homeostat_slots",
		"Slots, by who has them as this replica sees it: here, elsewhere, claimable or unavailable.", "controller", "state")
)

// slots sends who has which slot, of controllers that share their work.
func (s sender) slots(c *reconcile.Controller, all []inspect.SlotStatus) {
	if all == nil {
		return
	}
	counts := map[string]int{
		inspect.SlotHere: 0, inspect.SlotElsewhere: 0, inspect.SlotClaimable: 0, inspect.SlotUnavailable: 0,
	}
	for slot, status := range all {
		counts[status.State]++
		s.gauge(truth(status.State == inspect.SlotHere), slotOwned, c.Name(), strconv.Itoa(slot))
	}
	for state, n := range counts {
		s.gauge(float64(n), slots, c.Name(), state)
	}
}
