package plan

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Plan is the intended owner of each slot. All replicas compute the same plan
// from the same records.
type Plan struct {
	Target         []string       // the intended owners, by slot
	Owned          map[string]int // present slots by member; empty for ranges
	floor, ceiling int            // least and most slots of a fair share
}

// Planner makes the plans of a keeper. Most events of a watch change neither an
// owner nor the members, so it retains the costly results: the scores of the
// members and the last plan. It is not safe for concurrent use.
type Planner struct {
	// ByWeight makes the plan if the slots are ranges, and is nil otherwise.
	ByWeight func(owners, members []string) Plan
	scores   map[string][]uint64

	owners, members []string // arguments of the last plan
	lastPlan        Plan
}

// Plan returns the intended owners, given the present owner of each slot and
// the members that may own slots. It retains both slices. Except for Owned, the
// result is shared; do not modify it.
func (r *Planner) Plan(owners, members []string) Plan {
	if !slices.Equal(owners, r.owners) || !slices.Equal(members, r.members) {
		r.owners, r.members = owners, members
		if r.ByWeight != nil {
			r.lastPlan = r.ByWeight(owners, members)
		} else {
			r.lastPlan = r.byCount(owners, members)
		}
	}
	p := r.lastPlan
	p.Owned = maps.Clone(p.Owned)
	return p
}

// byCount returns the plan for the present owners. Owners that are not members
// keep their slots until they release them. The members' shares differ by at
// most one slot, and no more slots than necessary move from one live member to
// another.
//
// Each unowned slot is assigned to the member with the highest rendezvous
// score, among the members with less than a fair share.
func (r *Planner) byCount(owners, members []string) Plan {
	p := Plan{Target: slices.Clone(owners), Owned: map[string]int{}}
	if len(members) == 0 {
		return p
	}
	s := sharesOf(owners, members)
	scores := r.scoresOf(s.members, len(owners))
	divided := len(s.free)
	for m, slots := range s.slots {
		p.Owned[s.members[m]] = len(slots)
		divided += len(slots)
	}
	p.floor = divided / len(members)
	p.ceiling = p.floor + min(1, divided%len(members))
	for _, slot := range s.free {
		s.give(slot, s.preferred(slot, scores, p.floor, p.ceiling))
	}
	for s.rebalance(scores, p.floor, p.ceiling) {
	}
	s.write(p.Target)
	return p
}

// scoresOf returns the rendezvous scores of members, by the member's index and
// the slot.
func (r *Planner) scoresOf(members []string, slots int) [][]uint64 {
	scores, rows := map[string][]uint64{}, make([][]uint64, len(members))
	for m, member := range members {
		identity := IdentityOf(member)
		own := r.scores[identity]
		if own == nil {
			own = make([]uint64, slots)
			for slot := range own {
				own[slot] = preference(identity, slot)
			}
		}
		scores[identity], rows[m] = own, own
	}
	r.scores = scores
	return rows
}

// IsGreedy reports whether one more slot would give member too many, while
// another member has too few. Replicas whose records differ by a moment could
// otherwise both take the last slot above the floor, and a third replica would
// get too few. IsGreedy returns false for a plan by weight.
func (p *Plan) IsGreedy(member string) bool {
	if p.Owned[member] < p.floor {
		return false
	}
	for _, n := range p.Owned {
		if n < p.floor {
			return true
		}
	}
	return false
}

// shares holds the slots of each member.
type shares struct {
	members []string // the members, sorted
	slots   [][]int  // the slots of each member; ascending until a slot moves
	free    []int    // slots without an owner, ascending
}

// sharesOf returns the members' present shares. It leaves out the slots of
// owners that are not members.
func sharesOf(owners, members []string) shares {
	s := shares{members: slices.Sorted(slices.Values(members)), slots: make([][]int, len(members))}
	number := make(map[string]int, len(members))
	for m, member := range s.members {
		number[member] = m
	}
	for slot, owner := range owners {
		if m, ok := number[owner]; ok {
			s.give(slot, m)
		} else if owner == Unowned {
			s.free = append(s.free, slot)
		}
	}
	return s
}

func (s *shares) give(slot, member int) { s.slots[member] = append(s.slots[member], slot) }

// move moves a slot from one member to another.
func (s *shares) move(slot, giver, taker int) {
	n := slices.Index(s.slots[giver], slot)
	s.slots[giver] = slices.Delete(s.slots[giver], n, n+1)
	s.give(slot, taker)
}

// preferred returns the member with the highest score for a slot, among the
// members with fewer slots than the first limit. If there is no such member, it
// tries the next limit. At least one member must be below a limit.
func (s *shares) preferred(slot int, scores [][]uint64, limits ...int) int {
	best := -1
	for _, limit := range limits {
		for m, slots := range s.slots {
			if len(slots) < limit && (best < 0 || scores[m][slot] > scores[best][slot]) {
				best = m
			}
		}
		if best >= 0 {
			break
		}
	}
	return best
}

// rebalance moves one slot from the member with the most slots to the member
// with the fewest. It chooses the slot for which the receiver has the highest
// score. It reports false if all shares are fair.
func (s *shares) rebalance(scores [][]uint64, floor, ceiling int) bool {
	richest, poorest := 0, 0
	for m, slots := range s.slots {
		if len(slots) > len(s.slots[richest]) {
			richest = m
		}
		if len(slots) < len(s.slots[poorest]) {
			poorest = m
		}
	}
	if len(s.slots[richest]) <= ceiling && len(s.slots[poorest]) >= floor {
		return false
	}
	score := scores[poorest]
	best := slices.MaxFunc(s.slots[richest], func(x, y int) int { return cmp.Compare(score[x], score[y]) })
	s.move(best, richest, poorest)
	return true
}

// write sets each member as the target of its slots.
func (s *shares) write(target []string) {
	for m, slots := range s.slots {
		for _, slot := range slots {
			target[slot] = s.members[m]
		}
	}
}

// Weigh returns a plan that assigns the slots by weight. owners and weights are
// indexed by slot. First, each slot without an owner is assigned to the
// lightest member at that moment, beginning with the heaviest slot. Then slots
// move from the heaviest member to the lightest, until all members are close to
// the mean or no move helps.
func Weigh(owners, members []string, weights []float64) Plan {
	p := Plan{Target: slices.Clone(owners), Owned: map[string]int{}}
	if len(members) == 0 {
		return p
	}
	lightest := slices.Max(weights)/1000 + 1e-9 // the weight of an empty range, so that members share these, too
	b := balance{
		shares: sharesOf(owners, members), load: make([]float64, len(members)),
		weight: func(slot int) float64 { return weights[slot] + lightest },
	}
	for m, slots := range b.slots {
		for _, slot := range slots {
			b.load[m] += b.weight(slot)
		}
	}
	total := 0.0
	for slot, owner := range owners {
		if _, isMember := slices.BinarySearch(b.members, owner); isMember || owner == Unowned {
			total += b.weight(slot)
		}
	}
	slices.SortStableFunc(b.free, func(x, y int) int { return cmp.Compare(b.weight(y), b.weight(x)) })
	for _, slot := range b.free {
		member := b.lightest()
		b.give(slot, member)
		b.load[member] += b.weight(slot)
	}
	for b.rebalance(total / float64(len(members))) {
	}
	b.write(p.Target)
	return p
}

// balance adds the weight of each slot and the load of each member to shares.
type balance struct {
	shares

	load   []float64 // the load of each member
	weight func(slot int) float64
}

// lightest returns the member with the least load. On a tie it returns the
// first by name.
func (b *balance) lightest() int {
	return slices.Index(b.load, slices.Min(b.load))
}

// No slot moves while the heaviest member has at most heavy times the mean
// load, and the lightest member has at least light times the mean load. A
// lightest member with less load may have just joined. Slots then move to it
// from all members with more than the mean load.
const (
	heavy = 1.1
	light = 0.5
)

// rebalance moves one slot to the lightest member, and reports false if all
// members are near the mean or no move helps. The slot is taken from the
// heaviest member that has a slot light enough, since a single slot may be
// heavier than the total of another member. rebalance moves the slot that makes
// the two loads most equal.
func (b *balance) rebalance(mean float64) bool {
	lightest := b.lightest()
	limit := heavy * mean
	if b.load[lightest] < light*mean {
		limit = mean
	}
	var overloaded []int
	for m, load := range b.load {
		if load > limit {
			overloaded = append(overloaded, m)
		}
	}
	slices.SortStableFunc(overloaded, func(x, y int) int { return cmp.Compare(b.load[y], b.load[x]) })
	return slices.ContainsFunc(overloaded, func(giver int) bool { return b.relieve(giver, lightest) })
}

// relieve moves one slot from giver to the lightest member. It reports false if
// no slot of giver is light enough to make the two loads more equal.
func (b *balance) relieve(giver, lightest int) bool {
	difference := (b.load[giver] - b.load[lightest]) * (1 - 1e-6) // sums are rounded: a slot must not oscillate
	distance := func(slot int) float64 { return math.Abs(b.weight(slot) - difference/2) }
	slot := slices.MinFunc(b.slots[giver], func(x, y int) int {
		return cmp.Or(cmp.Compare(distance(x), distance(y)), cmp.Compare(x, y))
	})
	w := b.weight(slot)
	if w >= difference {
		return false
	}
	b.move(slot, giver, lightest)
	b.load[giver] -= w
	b.load[lightest] += w
	return true
}
