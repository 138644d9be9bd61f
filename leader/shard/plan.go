package shard

import (
	"cmp"
	"maps"
	"slices"
)

// nobody is the owner of a slot that may be taken.
const nobody = ""

// plan says who ought to have each slot. owners are the holders now; those that
// are not members keep what they have until they give it up. The members end
// with shares that differ by one at most, and no more slots move from one
// living member to another than that takes: who has a slot keeps it.
//
// A free slot goes to the member with the highest rendezvous score among those
// that have less than the fair share. All replicas come to the same plan from
// the same records.
func plan(owners []string, members []string) planner {
	p := planner{target: slices.Clone(owners), share: map[string]int{}, owned: map[string]int{}}
	if len(members) == 0 {
		return p
	}
	p.members = slices.Clone(members)
	slices.Sort(p.members)
	for _, m := range p.members {
		p.share[m] = 0
	}
	mine := 0 // slots that the members divide among themselves
	for _, owner := range owners {
		if _, ok := p.share[owner]; ok {
			p.share[owner]++
			mine++
		} else if owner == nobody {
			mine++
		}
	}
	p.floor = mine / len(p.members)
	p.ceiling = p.floor + min(1, mine%len(p.members))
	p.owned = maps.Clone(p.share)
	for slot, owner := range owners {
		if owner == nobody {
			p.give(slot)
		}
	}
	for p.move() {
	}
	return p
}

type planner struct {
	members        []string
	target         []string
	owned          map[string]int // how many slots each member has
	share          map[string]int // how many each is to have
	floor, ceiling int
}

// greedy tells whether one more slot would be more than others have yet a right
// to. Replicas whose records differ by a moment could otherwise both take the
// one slot too many, and a third would get too few.
func (p *planner) greedy(member string) bool {
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

// give plans a free slot.
func (p *planner) give(slot int) {
	for _, limit := range []int{p.floor, p.ceiling} {
		best, score := nobody, uint64(0)
		for _, m := range p.members {
			if s := preference(identityOf(m), slot); p.share[m] < limit && (best == nobody || s > score) {
				best, score = m, s
			}
		}
		if best != nobody {
			p.target[slot] = best
			p.share[best]++
			return
		}
	}
}

// move plans one slot from the member with the most to that with the fewest, if
// somebody has more or less than a fair share.
func (p *planner) move() bool {
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
