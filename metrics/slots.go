package metrics

import (
	"strconv"

	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/reconcile"
)

var (
	slotOwned = named("homeostat_slot_owned",
		"Whether this replica works on the slot: the sum over the replicas is 1.", "controller", "slot")
	slots = named("homeostat_slots",
		"Slots, by who has them as this replica sees it: here, elsewhere, claimable or unavailable.", "controller", "state")
)

// slots sends who has which slot, of controllers that share their work.
func (s sender) slots(c *reconcile.Controller, all []shard.SlotStatus) {
	if all == nil {
		return
	}
	counts := map[shard.State]int{shard.Here: 0, shard.Elsewhere: 0, shard.Claimable: 0, shard.Unavailable: 0}
	for slot, status := range all {
		counts[status.State]++
		s.gauge(truth(status.State == shard.Here), slotOwned, c.Name(), strconv.Itoa(slot))
	}
	for state, n := range counts {
		s.gauge(float64(n), slots, c.Name(), string(state))
	}
}
