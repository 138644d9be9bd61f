package reconciletest

import (
	"math/rand/v2"
	"slices"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
)

// furthest is how many writes ago the caches of a restart begin at most.
const furthest = 40

// planner makes the plans of a case from its run without faults.
type planner struct {
	reference *outcome
	c         *Case
	drift     bool // of outputs, by other clients
}

func (x *explorer) planner() *planner {
	return &planner{reference: x.reference, c: x.c, drift: !x.o.SkipDrift}
}

// singles are all plans of one deviation, the likeliest to fail first: crashes,
// lost replies, slow watches, restarts, late actors. The others are mixed, so
// that a small budget has some of each.
func (p *planner) singles() []plan.Plan {
	writes := p.calls(func(c *call) bool { return c.effect })
	var first, rest []plan.Plan
	for _, f := range []apisim.Fault{apisim.CrashAfter, apisim.LostReply} {
		first = append(first, each(plan.AtCall, writes, f)...)
	}
	first = append(first, each(plan.AtDelivery, upTo(p.reference.deliveries), plan.Hold)...)
	first = append(first, p.restarts()...)
	first = append(first, each(plan.Lagging, upTo(p.reference.acts), 0)...)
	if p.c.Before != nil && p.c.Replicas > 1 {
		first = append(first, plan.Plan{{At: plan.Rollout, Index: 1}})
	}
	ends := append(each(plan.Parted, writes, 0), each(plan.Stopped, writes, 0)...)
	if p.c.Replicas > 1 {
		first = append(ends, first...) // several replicas are there for these
	} else {
		rest = append(rest, ends...)
	}
	rest = append(rest, p.ofWrites(writes)...)
	rest = append(rest, p.ofReads()...)
	for _, f := range []apisim.Fault{apisim.Expired, apisim.Dropped, apisim.Duplicated} {
		rest = append(rest, each(plan.AtDelivery, upTo(p.reference.deliveries), f)...)
	}
	rest = append(rest, p.past()...)
	if p.drift {
		rest = append(rest, p.drifts()...)
	}
	if len(p.c.Workload) > 0 {
		rest = append(rest, each(plan.Early, upTo(p.reference.decisions), 0)...)
	}
	lasting := append(p.lasting(), p.notFound()...)
	return slices.Concat(first, mixed(rest), mixed(p.changes()), mixed(lasting), mixed(p.quieter()))
}

// outages returns outages of the server, from each write on: one failure does
// not show a program that gives up after five.
func (p *planner) outages() []plan.Plan {
	return each(plan.Refused, p.calls(func(c *call) bool { return c.effect }), 0)
}

// lasting returns refusals that last to the end, from each write on: of its
// namespace, and of its object. One that begins at an earlier write of the same
// object or namespace is another one, since less is done before it.
func (p *planner) lasting() []plan.Plan {
	writes := p.calls(func(c *call) bool { return c.effect })
	inNamespaces := p.calls(func(c *call) bool { return c.effect && c.Namespace != "" })
	return append(each(plan.Barred, inNamespaces, 0), each(plan.Poisoned, writes, 0)...)
}

// notFound returns answers with 404 that say nothing of the object: of a proxy,
// of a server that does not serve the version, and, to a call for one object,
// about another one. A deletion gets none of them: nearly every program takes
// its 404 for done.
func (p *planner) notFound() []plan.Plan {
	all := p.calls(func(c *call) bool { return c.Verb == "get" || c.Verb == "list" })
	ofOne := p.calls(func(c *call) bool { return c.Verb == "get" })
	return slices.Concat(each(plan.AtCall, all, apisim.ProxyNotFound), each(plan.AtCall, all, apisim.NotServed),
		each(plan.AtCall, ofOne, apisim.OtherNotFound))
}

// quieter are stops where nothing is written, and additions of other clients.
func (p *planner) quieter() []plan.Plan {
	all := each(plan.Stopped, p.calls(func(c *call) bool { return !c.effect }), 0)
	all = append(all, each(plan.Halted, upTo(p.reference.deliveries), 0)...)
	if p.drift {
		all = append(all, each(plan.Marked, upTo(len(p.reference.written)), 0)...)
	}
	return all
}

// restarts returns those at rest: the program finds the world unchanged, sees
// one list late, was down during the workload, or everything has slept.
func (p *planner) restarts() []plan.Plan {
	var all []plan.Plan
	steps := len(p.c.Workload)
	for rest := range p.reference.states {
		all = append(all, numbered(plan.Restarted, rest+1, 0))
	}
	for rest := range p.reference.states {
		for i := range len(p.reference.uses.watched) {
			all = append(all, numbered(plan.Unsynced, rest+1, i+1))
		}
	}
	for n := 1; n <= 2; n++ {
		for step := 1; step+n-1 <= steps; step++ {
			all = append(all, numbered(plan.Offline, step, n))
		}
	}
	return append(all, each(plan.Asleep, upTo(len(p.reference.states)), 0)...)
}

// ofWrites returns the faults of writes that are less likely to be fatal than
// those of singles: the write is lost or late, or another client was faster.
func (p *planner) ofWrites(writes []int) []plan.Plan {
	var all []plan.Plan
	for _, f := range []apisim.Fault{
		apisim.CrashBefore, apisim.Conflict, apisim.Internal, apisim.Throttled, apisim.Late,
	} {
		at := writes
		if f == apisim.Conflict {
			at = p.calls(func(c *call) bool { return c.effect && c.conflicts() })
		}
		all = append(all, each(plan.AtCall, at, f)...)
	}
	changes := p.calls(func(c *call) bool {
		return c.Name != "" && (c.Verb == "get" || c.effect && c.Verb != "create")
	})
	return append(all, each(plan.Rivalled, changes, 0)...)
}

// ofReads returns the faults of reads; any call may also be slow.
func (p *planner) ofReads() []plan.Plan {
	reads := p.calls(func(c *call) bool { return !c.Write() })
	lists := p.calls(func(c *call) bool { return !c.Write() && c.Verb != "get" })
	slow := p.calls(func(c *call) bool { return c.Verb != "watch" })
	all := each(plan.AtCall, reads, apisim.Internal)
	all = append(all, each(plan.AtCall, lists, apisim.Expired)...)
	return append(all, each(plan.AtCall, slow, plan.Hold)...)
}

// past are restarts with caches of the past, as from an API server that lags
// behind: one for each write to a watched resource, up to furthest.
func (p *planner) past() []plan.Plan {
	var all []plan.Plan
	for rest, commits := range p.reference.commits {
		for n := range min(commits, furthest) {
			all = append(all, numbered(plan.Restarted, rest+1, n+1))
		}
	}
	return all
}

// drifts delete each output that is the program's alone, and edit those that
// have a value which another client could edit.
func (p *planner) drifts() []plan.Plan {
	var alone, some []int
	for i, o := range p.reference.outputs {
		if !o.stepped {
			alone = append(alone, i+1)
		}
		if o.leaf != nil {
			some = append(some, i+1)
		}
	}
	return append(each(plan.Deleted, alone, 0), each(plan.Edited, some, 0)...)
}

// changes edits each value of the inputs, and deletes and creates those again
// that are nobody's.
func (p *planner) changes() []plan.Plan {
	var all []plan.Plan
	for i, in := range p.reference.inputs {
		for n := range in.edits {
			all = append(all, numbered(plan.Altered, i+1, n+1))
		}
		if in.fresh != nil {
			all = append(all, plan.Plan{{At: plan.Replaced, Index: i + 1}})
		}
	}
	return all
}

// each makes a plan of each index, with the same kind of deviation and the same
// fault.
func each(at byte, indices []int, f apisim.Fault) []plan.Plan {
	var all []plan.Plan
	for _, i := range indices {
		all = append(all, plan.Plan{{At: at, Index: i, Fault: f}})
	}
	return all
}

// numbered makes a plan of one deviation that has a number, such as a restart n
// writes ago.
func numbered(at byte, index, n int) plan.Plan { return plan.Plan{{At: at, Index: index, N: n}} }

// upTo are the numbers from 1 to n: the indices of deviations begin with 1.
func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

// mixed puts plans in an order that looks random, and is always the same.
func mixed(all []plan.Plan) []plan.Plan {
	rng := rand.New(rand.NewPCG(1, 1))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// calls are the indices of the calls that want selects, in the run without faults.
func (p *planner) calls(want func(c *call) bool) []int {
	var all []int
	for i, c := range p.reference.calls {
		if want(c) {
			all = append(all, i+1)
		}
	}
	return all
}

// pairs returns, first, outputs that are deleted or edited while their watch
// ends, so that no event shows it. Then come a crash or a lost reply together
// with a slow watch, for a program that has forgotten, or does not know, its
// own write, and does not see it either; and a slow watch while the workload
// continues. No other pairs find as much.
func (p *planner) pairs() []plan.Plan {
	return append(p.unseenDrifts(), mixed(append(p.forgotten(), p.overtaken()...))...)
}

// unseenDrifts returns plans that end the watch at the first event after the
// workload: that of the drift.
func (p *planner) unseenDrifts() []plan.Plan {
	var all []plan.Plan
	if !p.drift {
		return nil
	}
	for _, d := range p.drifts() {
		for _, f := range []apisim.Fault{apisim.Expired, apisim.Dropped} {
			all = append(all, plan.Plan{d[0], {At: plan.AtDelivery, Index: p.reference.deliveries + 1, Fault: f}})
		}
	}
	return all
}

// overtaken holds a watch back, and lets the next step come a little later.
func (p *planner) overtaken() []plan.Plan {
	var all []plan.Plan
	if len(p.c.Workload) == 0 {
		return nil
	}
	for i, decision := range p.reference.delivered {
		for _, later := range []int{1, 3, 6} {
			all = append(all, plan.Plan{
				{At: plan.AtDelivery, Index: i + 1, Fault: plan.Hold}, {At: plan.Early, Index: decision + later},
			})
		}
	}
	return all
}

// forgotten are a crash or a lost reply, each together with each slow watch.
func (p *planner) forgotten() []plan.Plan {
	var all []plan.Plan
	for _, i := range p.calls(func(c *call) bool { return c.effect }) {
		for d := range p.reference.deliveries {
			for _, f := range []apisim.Fault{apisim.CrashAfter, apisim.LostReply} {
				all = append(all, plan.Plan{
					{At: plan.AtCall, Index: i, Fault: f}, {At: plan.AtDelivery, Index: d + 1, Fault: plan.Hold},
				})
			}
		}
	}
	return all
}

// otherEnd reports whether the end of a plan is another one than that without
// faults.
func otherEnd(p plan.Plan) bool {
	_, lasts := p.Lasting()
	return lasts || p.Changes()
}

// mostAtOnce is how many deviations a seed adds to its order.
const mostAtOnce = 3

// seeded is the plan of a seed: a random order of everything, and up to
// mostAtOnce of the single deviations.
func seeded(seed int, singles []plan.Plan) plan.Plan {
	rng := rand.New(rand.NewPCG(uint64(seed), 2))
	p := plan.Plan{{At: plan.Shuffled, Index: seed}}
	if len(singles) == 0 {
		return p
	}
	for range rng.IntN(mostAtOnce + 1) {
		if single := singles[rng.IntN(len(singles))]; !otherEnd(single) {
			p = append(p, single...)
		}
	}
	return p
}
