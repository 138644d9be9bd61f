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
	Target         []string       // by slot
	Owned          map[string]int // the number of slots that each member has
	floor, ceiling int            // of a fair share
}

// Planner makes the plans of a keeper. It retains the costly results: the scores
// of the members, and the last             Plan, since most events of a watch change neither
// an owner nor the members. It is not safe for concurrent use.
type Planner struct {
	ByWeight func(owners, members []string) Plan // of slots that are ranges; nil of others
	scores   map[string][]uint64

	owners, members []string // of the last             Plan
	last            Plan
}

// Plan returns the intended owners. It retains the arguments; only Owned of the result
// may be modified.
func (r *Planner) Plan(owners, members []string) Plan {
	if !slices.Equal(owners, r.owners) || !slices.Equal(members, r.members) {
		r.owners, r.members = owners, members
		if r.ByWeight != nil {
			r.last = r.ByWeight(owners, members)
		} else {
			r.last = r.byCount(owners, members)
		}
	}
	p := r.last
	p.Owned = maps.Clone(p.Owned)
	return p
}

// byCount returns the plan for the present owners. Owners that are not members
// keep their slots until they release them. The members' shares differ by at most
// one slot, and no more slots than necessary move from one live member to another.
//
// An Unowned slot goes to the member with the highest rendezvous score among
// those below the fair share.
func (r *Planner) byCount(owners, members []string) Plan {
	p := Plan{Target: slices.Clone(owners), Owned: map[string]int{}}
	if len(members) == 0 {
		return p
	}
	s := sharesOf(owners, members)
	scores := r.scoresOf(s.members, len(owners))
	divided := len(s.free)
	for m, of := range s.slots {
		p.Owned[s.members[m]] = len(of)
		divided += len(of)
	}
	p.floor = divided / len(members)
	p.ceiling = p.floor + min(1, divided%len(members))
	for _, slot := range s.free {
		s.give(slot, s.preferred(slot, scores, p.floor, p.ceiling))
	}
	for s.even(scores, p.floor, p.ceiling) {
	}
	s.write(p.Target)
	return p
}

// scoresOf returns the rendezvous scores of members, by their number and the slot.
func (r *Planner) scoresOf(members []string, slots int) [][]uint64 {
	scores, all := map[string][]uint64{}, make([][]uint64, len(members))
	for m, member := range members {
		identity := IdentityOf(member)
		of := r.scores[identity]
		if of == nil {
			of = make([]uint64, slots)
			for slot := range of {
				of[slot] = preference(identity, slot)
			}
		}
		scores[identity], all[m] = of, of
	}
	r.scores = scores
	return all
}

// IsGreedy reports whether one more slot for member would be one too many while
// other members are below their share. Replicas whose records differ by a moment
// could otherwise both take the last slot above the floor, and a third would get
// too few.
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

// shares are the slots of each member.
type shares struct {
	members []string // sorted
	slots   [][]int  // by the number of the member, ascending until one moves
	free    []int    // without owner, ascending
}

// sharesOf returns the members' present shares. Slots of others are left out.
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

// move gives a slot of one member to another.
func (s *shares) move(slot, from, to int) {
	at := slices.Index(s.slots[from], slot)
	s.slots[from] = slices.Delete(s.slots[from], at, at+1)
	s.give(slot, to)
}

// preferred returns the member with the highest score for a slot among those below the
// first limit, or else below the second. At least one must be below a limit.
func (s *shares) preferred(slot int, scores [][]uint64, limits ...int) int {
	best := -1
	for _, limit := range limits {
		for m, of := range s.slots {
			if len(of) < limit && (best < 0 || scores[m][slot] > scores[best][slot]) {
				best = m
			}
		}
		if best >= 0 {
			break
		}
	}
	return best
}

// even moves one slot from the member with the most to the one with the fewest: the
// slot for which the latter has the highest score. It reports false if all shares are
// fair.
func (s *shares) even(scores [][]uint64, floor, ceiling int) bool {
	most, fewest := 0, 0
	for m, of := range s.slots {
		if len(of) > len(s.slots[most]) {
			most = m
		}
		if len(of) < len(s.slots[fewest]) {
			fewest = m
		}
	}
	if len(s.slots[most]) <= ceiling && len(s.slots[fewest]) >= floor {
		return false
	}
	score := scores[fewest]
	best := slices.MaxFunc(s.slots[most], func(x, y int) int { return cmp.Compare(score[x], score[y]) })
	s.move(best, most, fewest)
	return true
}

// write sets the owners of the members' slots.
func (s *shares) write(target []string) {
	for m, of := range s.slots {
		for _, slot := range of {
			target[slot] = s.members[m]
		}
	}
}

// Weigh assigns the slots by weight: those without an owner to the lightest
// member, the heaviest slot first. Then slots move from the heaviest member to the
// lightest, until all are close to the mean or no move helps.
func Weigh(owners, members []string, weights []float64) Plan {
	p := Plan{Target: slices.Clone(owners), Owned: map[string]int{}}
	if len(members) == 0 {
		return p
	}
	least := slices.Max(weights)/1000 + 1e-9 // the weight of an empty range: those are shared out, too
	b := balance{
		shares: sharesOf(owners, members), load: make([]float64, len(members)),
		weight: func(slot int) float64 { return weights[slot] + least },
	}
	for m, of := range b.slots {
		for _, slot := range of {
			b.load[m] += b.weight(slot)
		}
	}
	total := 0.0
	for slot, owner := range owners {
		if _, member := slices.BinarySearch(b.members, owner); member || owner == Unowned {
			total += b.weight(slot)
		}
	}
	slices.SortStableFunc(b.free, func(x, y int) int { return cmp.Compare(b.weight(y), b.weight(x)) })
	for _, slot := range b.free {
		to := b.lightest()
		b.give(slot, to)
		b.load[to] += b.weight(slot)
	}
	for b.even(total / float64(len(members))) {
	}
	b.write(p.Target)
	return p
}

// balance is shares with their weights.
type balance struct {
	shares

	load   []float64 // of each member
	weight func(slot int) float64
}

// lightest returns the member with the least load; on a tie, the first by name.
func (b *balance) lightest() int {
	return slices.Index(b.load, slices.Min(b.load))
}

// Shares of the mean load: no slot moves while the heaviest member has at most the
// first, and the lightest, which may have just joined, at least the second.
const (
	heavy = 1.1
	light = 0.5
)

// even moves the slot that makes the two loads most equal to the lightest member, from
// the heaviest member that has a slot light enough: a single slot may be heavier than
// the total of another member. It reports false if all are near the mean, or no move
// helps.
func (b *balance) even(mean float64) bool {
	least := b.lightest()
	limit := heavy * mean
	if b.load[least] < light*mean {
		limit = mean
	}
	var above []int
	for m, load := range b.load {
		if load > limit {
			above = append(above, m)
		}
	}
	slices.SortStableFunc(above, func(x, y int) int { return cmp.Compare(b.load[y], b.load[x]) })
	return slices.ContainsFunc(above, func(from int) bool { return b.relieve(from, least) })
}

// relieve moves one slot of a member to the lightest. It reports false if none is light
// enough to make the two more equal.
func (b *balance) relieve(from, least int) bool {
	difference := (b.load[from] - b.load[least]) * (1 - 1e-6) // sums are rounded: a slot must not oscillate
	far := func(slot int) float64 { return math.Abs(b.weight(slot) - difference/2) }
	slot := slices.MinFunc(b.slots[from], func(x, y int) int {
		return cmp.Or(cmp.Compare(far(x), far(y)), cmp.Compare(x, y))
	})
	w := b.weight(slot)
	if w >= difference {
		return false
	}
	b.move(slot, from, least)
	b.load[from] -= w
	b.load[least] += w
	return true
}
