package metrics_test

import (
	"testing"

	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// threeSlots are shards that only report their owners.
type threeSlots struct{ reconcile.Shards }

func (threeSlots) Owners() ([]inspect.SlotStatus, float64) {
	return []inspect.SlotStatus{
		{State: inspect.Here, Owner: "me", Weight: 0.7, Heavy: "team-a"},
		{State: inspect.Elsewhere, Owner: "another", Weight: 0.3},
		{State: inspect.Claimable},
	}, 1.7
}

func TestSlotsAreGauges(t *testing.T) {
	inBubble(t, nil, func(s *fixture) {
		s.controller("test", &reconcile.Options{Shards: threeSlots{}}, idle)
		s.register()
		s.shows(`
# HELP homeostat_heavy_namespaces Slots with a namespace that had more objects than the fair share of a replica when the ranges were chosen. Such a namespace is not divided.
# TYPE homeostat_heavy_namespaces gauge
homeostat_heavy_namespaces{controller="test"} 1
# HELP homeostat_leading Whether this replica leads and reconciles, for controllers that elect a leader.
# TYPE homeostat_leading gauge
homeostat_leading{controller="test"} 0
# HELP homeostat_shard_imbalance Objects of the replica with the most objects, divided by the mean of all replicas; 0 while balanced or not known. Scaling to zero replicas and up again divides the namespaces anew.
# TYPE homeostat_shard_imbalance gauge
homeostat_shard_imbalance{controller="test"} 1.7
# HELP homeostat_slot_owned Whether this replica works on the slot: the sum over the replicas is 1.
# TYPE homeostat_slot_owned gauge
homeostat_slot_owned{controller="test",slot="0"} 1
homeostat_slot_owned{controller="test",slot="1"} 0
homeostat_slot_owned{controller="test",slot="2"} 0
# HELP homeostat_slots Slots by state, as this replica sees it: here, elsewhere, claimable or unavailable.
# TYPE homeostat_slots gauge
homeostat_slots{controller="test",state="claimable"} 1
homeostat_slots{controller="test",state="elsewhere"} 1
homeostat_slots{controller="test",state="here"} 1
homeostat_slots{controller="test",state="unavailable"} 0
`)
	})
}
