package plan

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
)

// A replica whose own watch is silent sees no member, not even itself, and may
// take a slot all the same.
func TestAPlanWithoutMembersMovesNoSlotsAndCanBeAddedTo(t *testing.T) {
	g := NewWithT(t)
	p := (&Planner{}).Plan([]string{Unowned, "a_1"}, nil)
	g.Expect(p.Target).To(Equal([]string{Unowned, "a_1"}))
	p.Owned["b_1"]++
	g.Expect(p.IsGreedy("b_1")).To(BeFalse())
}

func TestAPlanEqualsThePlainAlgorithms(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	moved := 0
	for range 1000 {
		g := NewWithT(t)
		owners, members := randomOwners(random)
		p := (&Planner{}).Plan(owners, members)
		target, owned := plainPlan(owners, members)
		g.Expect(p.Target).To(Equal(target))
		g.Expect(p.Owned).To(Equal(owned))
		weights := make([]float64, len(owners))
		for slot := range weights {
			weights[slot] = float64(random.IntN(4)) * math.Trunc(math.Pow(2, 8*random.Float64()))
		}
		g.Expect(Weigh(owners, members, weights).Target).To(Equal(plainPlanByWeight(owners, members, weights)))
		for slot, owner := range target {
			if owner != owners[slot] && owners[slot] != Unowned {
				moved++
			}
		}
	}
	NewWithT(t).Expect(moved).To(BeNumerically(">", 1000), "slots of live members move, too")
}

// randomOwners returns random owners of slots. Some of them are not members.
func randomOwners(random *rand.Rand) (owners, members []string) {
	for n := range random.IntN(9) {
		members = append(members, fmt.Sprintf("replica-%d_%d.1", n, random.IntN(3)))
	}
	random.Shuffle(len(members), func(a, b int) { members[a], members[b] = members[b], members[a] })
	from := append([]string{Unowned, "replica-9_1.1"}, members[:(len(members)+1)/2]...)
	from = append(from, from[random.IntN(len(from))], from[random.IntN(len(from))])
	for range 1 + random.IntN(100) {
		owners = append(owners, from[random.IntN(len(from))])
	}
	return owners, members
}

// The same owners and members are planned once, and scores computed once.
func TestAPlanIsMadeAnewWhenOwnersOrMembersChange(t *testing.T) {
	g := NewWithT(t)
	r := &Planner{}
	owners, members := []string{"a_1", "a_1", "a_1", Unowned}, []string{"a_1", "b_1"}
	first := r.Plan(owners, members)
	first.Owned["a_1"] = 7
	again := r.Plan(slices.Clone(owners), slices.Clone(members))
	g.Expect(&again.Target[0]).To(BeIdenticalTo(&first.Target[0]))
	g.Expect(again.Owned["a_1"]).To(Equal(3))
	score := &r.scores["a"][0]
	next := r.Plan([]string{"a_1", "a_1", "b_1", "b_1"}, members)
	g.Expect(next.Target).To(Equal([]string{"a_1", "a_1", "b_1", "b_1"}))
	g.Expect(r.Plan([]string{"a_1", "a_1", "b_1", "b_1"}, []string{"a_1"}).Target).To(Equal(next.Target))
	g.Expect(&r.scores["a"][0]).To(BeIdenticalTo(score))
	g.Expect(r.scores).NotTo(HaveKey("b"), "those of members that have left are not retained")
}

// plainPlan is the plan by count in its simplest form.
func plainPlan(owners, members []string) (target []string, owned map[string]int) {
	target, owned = slices.Clone(owners), map[string]int{}
	if len(members) == 0 {
		return target, owned
	}
	members = slices.Sorted(slices.Values(members))
	share, divided := map[string]int{}, 0
	for _, owner := range owners {
		if slices.Contains(members, owner) {
			share[owner]++
		}
		if owner == Unowned || slices.Contains(members, owner) {
			divided++
		}
	}
	for _, m := range members {
		owned[m] = share[m]
	}
	floor := divided / len(members)
	ceiling := floor + min(1, divided%len(members))
	score := func(m string, slot int) uint64 { return preference(IdentityOf(m), slot) }
	for slot, owner := range owners {
		for _, limit := range []int{floor, ceiling} {
			below := slices.DeleteFunc(slices.Clone(members), func(m string) bool { return share[m] >= limit })
			if owner == Unowned && target[slot] == Unowned && len(below) > 0 {
				target[slot] = slices.MaxFunc(below, func(a, b string) int { return cmp.Compare(score(a, slot), score(b, slot)) })
				share[target[slot]]++
			}
		}
	}
	for {
		byShare := func(a, b string) int { return cmp.Compare(share[a], share[b]) }
		most, fewest := slices.MaxFunc(members, byShare), slices.MinFunc(members, byShare)
		if share[most] <= ceiling && share[fewest] >= floor {
			return target, owned
		}
		best := -1
		for slot, owner := range target {
			if owner == most && (best < 0 || score(fewest, slot) > score(fewest, best)) {
				best = slot
			}
		}
		target[best] = fewest
		share[most]--
		share[fewest]++
	}
}

// plainPlanByWeight is the plan by weight in its simplest form.
func plainPlanByWeight(owners, members []string, weights []float64) []string {
	target := slices.Clone(owners)
	if len(members) == 0 {
		return target
	}
	members = slices.Sorted(slices.Values(members))
	least, load, total := slices.Max(weights)/1000+1e-9, map[string]float64{}, 0.0
	byLoad := func(a, b string) int { return cmp.Compare(load[a], load[b]) }
	free := map[int]float64{}
	for slot, owner := range owners {
		w := weights[slot] + least
		switch {
		case slices.Contains(members, owner):
			load[owner] += w
		case owner == Unowned:
			free[slot] = w
		default:
			continue
		}
		total += w
	}
	for _, slot := range slices.SortedFunc(maps.Keys(free), func(a, b int) int {
		return cmp.Or(cmp.Compare(free[b], free[a]), cmp.Compare(a, b))
	}) {
		target[slot] = slices.MinFunc(members, byLoad)
		load[target[slot]] += free[slot]
	}
	for mean := total / float64(len(members)); ; {
		lightest := slices.MinFunc(members, byLoad)
		best, from := -1, ""
		for _, most := range slices.SortedStableFunc(slices.Values(members), func(a, b string) int { return byLoad(b, a) }) {
			near := load[most] <= heavy*mean && load[lightest] >= light*mean || load[most] <= mean
			difference, closest := (load[most]-load[lightest])*(1-1e-6), math.Inf(1)
			for slot, owner := range target {
				w := weights[slot] + least
				if far := math.Abs(w - difference/2); !near && owner == most && w < difference && far < closest {
					best, from, closest = slot, most, far
				}
			}
			if best >= 0 {
				break
			}
		}
		if best < 0 {
			return target
		}
		target[best] = lightest
		load[from] -= weights[best] + least
		load[lightest] += weights[best] + least
	}
}
