package reconciletest

import (
	"math/rand/v2"

	"github.com/homeostat/homeostat/internal/apisim"
)

// singles are all plans of one deviation, the likeliest to fail first: crashes, lost replies, slow watches.
func (x *explorer) singles() []plan {
	var all []plan
	add := func(at byte, index int, fault apisim.Fault) {
		all = append(all, plan{{
			at: at, index: index,
			fault: fault,
		}})
	}
	writes := x.calls(func(c *call) bool { return c.effect })
	for _, f := range []apisim.Fault{apisim.CrashAfter, apisim.LostReply} {
		for _, i := range writes {
			add('c', i, f)
		}
	}
	for d := range x.reference.deliveries {
		add('d', d+1, hold)
	}
	for _, f := range []apisim.Fault{
		apisim.CrashBefore, apisim.Conflict, apisim.Internal, apisim.Throttled,
		apisim.Late,
	} {
		for _, i := range writes {
			add('c', i, f)
		}
	}
	for _, i := range writes {
		add('p', i, apisim.NoFault)
	}
	for d := range x.reference.deliveries {
		add('d', d+1, apisim.Expired)
	}
	for d := range x.reference.deliveries {
		add('d', d+1, apisim.Dropped)
	}
	if !x.o.SkipDrift {
		for i := range x.reference.outputs {
			add('x', i+1, apisim.NoFault)
		}
	}
	for _, i := range x.calls(func(c *call) bool { return !c.Write() }) {
		add('c', i, apisim.Internal)
		if verb := x.reference.calls[i-1].Verb; verb != "get" {
			add('c', i, apisim.Expired)
		}
	}
	if len(x.c.Workload) > 0 {
		for d := range x.reference.decisions {
			add('w', d+1, apisim.NoFault)
		}
	}
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

// pairs are a crash or a lost reply together with a slow watch: the pairs that find most. Their order is fixed and
// mixed.
func (x *explorer) pairs() []plan {
	var all []plan
	for _, i := range x.calls(func(c *call) bool { return c.effect }) {
		for d := range x.reference.deliveries {
			for _, f := range []apisim.Fault{apisim.CrashAfter, apisim.LostReply} {
				all = append(all, plan{{at: 'c', index: i, fault: f}, {at: 'd', index: d + 1, fault: hold}})
			}
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}
