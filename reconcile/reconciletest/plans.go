package reconciletest

import (
	"math/rand/v2"

	"github.com/homeostat/homeostat/internal/apisim"
)

// furthest is how many writes ago the caches of a restart begin at most.
const furthest = 40

// singles are all plans of one deviation, the likeliest to fail first: crashes, lost replies, slow watches, restarts,
// late actors. The others are mixed, so that a small budget has some of each.
func (x *explorer) singles() []plan {
	writes := x.calls(func(c *call) bool { return c.effect })
	var first, rest []plan
	for _, f := range []apisim.Fault{apisim.CrashAfter, apisim.LostReply} {
		first = append(first, each(atCall, writes, f)...)
	}
	first = append(first, each(atDelivery, upTo(x.reference.deliveries), hold)...)
	first = append(first, x.restarts()...)
	first = append(first, each(lagging, upTo(x.reference.acts), 0)...)
	ends := append(each(parted, writes, 0), each(stopped, writes, 0)...)
	if x.c.Replicas > 1 {
		first = append(ends, first...) // that is what several are for
	} else {
		rest = append(rest, ends...)
	}
	rest = append(rest, x.ofWrites(writes)...)
	rest = append(rest, x.ofReads()...)
	for _, f := range []apisim.Fault{apisim.Expired, apisim.Dropped, apisim.Duplicated} {
		rest = append(rest, each(atDelivery, upTo(x.reference.deliveries), f)...)
	}
	rest = append(rest, x.past()...)
	if !x.o.SkipDrift {
		rest = append(rest, x.drifts()...)
	}
	if len(x.c.Workload) > 0 {
		rest = append(rest, each(early, upTo(x.reference.decisions), 0)...)
	}
	return append(first, mixed(rest)...)
}

// restarts are at rest: the program finds the world as it left it, or as it was not there to see.
func (x *explorer) restarts() []plan {
	var all []plan
	steps := len(x.c.Workload)
	for rest := range x.reference.states {
		all = append(all, numbered(restarted, rest+1, 0))
	}
	for rest := range x.reference.states {
		for i := range len(x.reference.watched) {
			all = append(all, numbered(unsynced, rest+1, i+1))
		}
	}
	for n := 1; n <= 2; n++ {
		for step := 1; step+n-1 <= steps; step++ {
			all = append(all, numbered(offline, step, n))
		}
	}
	return append(all, each(asleep, upTo(len(x.reference.states)), 0)...)
}

// ofWrites are what can go wrong with a write.
func (x *explorer) ofWrites(writes []int) []plan {
	var all []plan
	for _, f := range []apisim.Fault{
		apisim.CrashBefore, apisim.Conflict, apisim.Internal, apisim.Throttled, apisim.Late,
	} {
		all = append(all, each(atCall, writes, f)...)
	}
	changes := x.calls(func(c *call) bool {
		return c.Name != "" && (c.Verb == "get" || c.effect && c.Verb != "create")
	})
	return append(all, each(rivalled, changes, 0)...)
}

// ofReads are what can go wrong with a read; and any call may be slow.
func (x *explorer) ofReads() []plan {
	reads := x.calls(func(c *call) bool { return !c.Write() })
	lists := x.calls(func(c *call) bool { return !c.Write() && c.Verb != "get" })
	slow := x.calls(func(c *call) bool { return c.Verb != "watch" })
	all := each(atCall, reads, apisim.Internal)
	all = append(all, each(atCall, lists, apisim.Expired)...)
	return append(all, each(atCall, slow, hold)...)
}

// past are restarts with caches that begin in the past.
func (x *explorer) past() []plan {
	var all []plan
	for rest, commits := range x.reference.commits {
		for n := range min(commits, furthest) {
			all = append(all, numbered(restarted, rest+1, n+1))
		}
	}
	return all
}

func (x *explorer) drifts() []plan {
	var some []int
	for i, o := range x.reference.outputs {
		if o.leaf != nil {
			some = append(some, i+1)
		}
	}
	return append(each(deleted, upTo(len(x.reference.outputs)), 0), each(edited, some, 0)...)
}

func each(at byte, indices []int, f apisim.Fault) []plan {
	var all []plan
	for _, i := range indices {
		all = append(all, plan{{at: at, index: i, fault: f}})
	}
	return all
}

func numbered(at byte, index, n int) plan { return plan{{at: at, index: index, n: n}} }

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

// mixed is in an order that is always the same.
func mixed(all []plan) []plan {
	rng := rand.New(rand.NewPCG(1, 1))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func (x *explorer) calls(want func(c *call) bool) []int {
	var all []int
	for i, c := range x.reference.calls {
		if want(c) {
			all = append(all, i+1)
		}
	}
	return all
}

// pairs are a crash or a lost reply together with a slow watch: the pairs that find most.
func (x *explorer) pairs() []plan {
	var all []plan
	for _, i := range x.calls(func(c *call) bool { return c.effect }) {
		for d := range x.reference.deliveries {
			for _, f := range []apisim.Fault{apisim.CrashAfter, apisim.LostReply} {
				all = append(all, plan{{at: atCall, index: i, fault: f}, {at: atDelivery, index: d + 1, fault: hold}})
			}
		}
	}
	return mixed(all)
}

// mostAtOnce is how many deviations a seed adds to its order.
const mostAtOnce = 3

// seeded is the plan of a seed: another order of everything, and a few of the deviations.
func seeded(seed int, singles []plan) plan {
	rng := rand.New(rand.NewPCG(uint64(seed), 2))
	p := plan{{at: shuffled, index: seed}}
	if len(singles) == 0 {
		return p
	}
	for range rng.IntN(mostAtOnce + 1) {
		p = append(p, singles[rng.IntN(len(singles))]...)
	}
	return p
}
