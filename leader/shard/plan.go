package shard

import (
	"cmp"
	"maps"
	"slices"
)

// plan is the intended owner of each slot. All replicas compute the same plan
// from the same records.
type plan struct {
	members        []string
	target         []string       // by slot
	owned          map[string]int // the number of slots that each member has
	share          map[string]int // the number that each is to have
	floor, ceiling int            // of a fair share
}

// makePlan returns the plan for the present owners. Owners that are not members
// keep their slots until they release them. The shares of the members differ by
// one at most, and no more slots move from one live member to another than that
// takes.
//
// An unowned slot goes to the member with the highest rendezvous score among
// those below the fair share.
func makePlan(owners, members []string) plan {
	p := plan{target: slices.Clone(owners), share: map[string]int{}, owned: map[string]int{}}
	if len(members) == 0 {
		return p
	}
	p.members = slices.Sorted(slices.Values(members))
	for _, m := range p.members {
		p.share[m] = 0
	}
	divided := 0 // slots that the members divide among themselves
	for _, owner := range owners {
		if _, ok := p.share[owner]; ok {
			p.share[owner]++
			divided++
		} else if owner == unowned {
			divided++
		}
	}
	p.floor = divided / len(p.members)
	p.ceiling = p.floor + min(1, divided%len(p.members))
	p.owned = maps.Clone(p.share)
	for slot, owner := range owners {
		if owner == unowned {
			p.assign(slot)
		}
	}
	for p.move() {
	}
	return p
}

// isGreedy reports whether one more slot for member would be one too many while
// other members are below their share. Replicas whose records differ by a moment
// could otherwise both take the last slot above the floor, and a third would get
// too few.
func (p *plan) isGreedy(member string) bool {
	if p.owned[member] < p.floor {
		return false
	}
	for _, n := range p.owned {
		if n < p.floor {
			return true
		}
	}
	return false
}

// assign plans an unowned slot.
func (p *plan) assign(slot int) {
	for _, limit := range []int{p.floor, p.ceiling} {
		best, score := unowned, uint64(0)
		for _, m := range p.members {
			if s := preference(identityOf(m), slot); p.share[m] < limit && (best == unowned || s > score) {
				best, score = m, s
			}
		}
		if best != unowned {
			p.target[slot] = best
			p.share[best]++
			return
		}
	}
}

// move plans one slot from the member with the most to the one with the fewest.
// It reports false if all shares are fair.
func (p *plan) move() bool {
	byShare := func(a, b string) int { return cmp.Compare(p.share[a], p.share[b]) }
	most, fewest := slices.MaxFunc(p.members, byShare), slices.MinFunc(p.members, byShare)
	if p.share[most] <= p.ceiling && p.share[fewest] >= p.floor {
		return false
	}
	best, score := -1, uint64(0)
	for slot, owner := range p.target {
		if s := preference(identityOf(fewest), slot); owner == most && (best < 0 || s > score) {
			best, score = slot, s
		}
	}
	p.target[best] = fewest
	p.share[most]--
	p.share[fewest]++
	return true
}
