package reconciletest

import (
	"math/rand/v2"
	"slices"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// mostWritesBehind is the largest number of writes that caches may lack after a
// restart.
const mostWritesBehind = 40

// planner makes the plans of a case from its run without faults.
type planner struct {
	reference *outcome
	c         *Case
	samples   []state.Located
	drift     bool // whether other clients delete and edit outputs
}

func (x *explorer) planner() *planner {
	return &planner{reference: x.reference, c: x.c, samples: x.samples, drift: !x.o.SkipDrift}
}

// singles returns all plans of one deviation, except for the outages. The plans
// that are most likely to fail are first: crashes, lost replies, slow watches,
// restarts and late actors. The others are mixed, because a small budget should
// include some of each kind.
func (p *planner) singles() []plan.Plan {
	writes := p.calls(func(c *call) bool { return c.effect })
	var first, rest []plan.Plan
	for _, f := range []apisim.Fault{apisim.CrashAfter, apisim.LostReply} {
		first = append(first, plansOf(plan.AtCall, writes, f)...)
	}
	first = append(first, plansOf(plan.AtDelivery, upTo(p.reference.deliveries), plan.Hold)...)
	first = append(first, p.restarts()...)
	first = append(first, plansOf(plan.Lagging, upTo(p.reference.acts), 0)...)
	if p.c.Before != nil && p.c.Replicas > 1 {
		first = append(first, plan.Plan{{Kind: plan.Rollout, Index: 1}})
	}
	ends := append(plansOf(plan.Parted, writes, 0), plansOf(plan.Stopped, writes, 0)...)
	if p.c.Replicas > 1 {
		first = append(ends, first...) // programs have several replicas in order to survive these
	} else {
		rest = append(rest, ends...)
	}
	rest = append(rest, p.writeFaults()...)
	rest = append(rest, p.readFaults()...)
	for _, f := range []apisim.Fault{apisim.Expired, apisim.Dropped, apisim.Duplicated} {
		rest = append(rest, plansOf(plan.AtDelivery, upTo(p.reference.deliveries), f)...)
	}
	rest = append(rest, p.staleRestarts()...)
	if p.drift {
		rest = append(rest, p.drifts()...)
	}
	if len(p.c.Workload) > 0 {
		rest = append(rest, plansOf(plan.Early, upTo(p.reference.decisions), 0)...)
	}
	lasting := slices.Concat(p.lasting(), p.notFound(), p.detentions(), p.undecodable(), p.worlds())
	return slices.Concat(first, mixed(rest), mixed(p.changes()), mixed(lasting), mixed(p.quieter()))
}

// outages returns plans with an outage of the server that begins at a write.
// They find programs that give up after several failures. A single failure does
// not show that.
func (p *planner) outages() []plan.Plan {
	writes := p.calls(func(c *call) bool { return c.effect })
	var long []plan.Plan
	for n := range len(outages) {
		for _, index := range spread(writes) {
			long = append(long, numbered(plan.Outage, index, n+1))
		}
	}
	return append(plansOf(plan.Refused, writes, 0), long...)
}

// spread returns the first, the middle and the last element of places.
func spread(places []int) []int {
	if len(places) < 3 {
		return places
	}
	return []int{places[0], places[len(places)/2], places[len(places)-1]}
}

// lasting returns plans with a refusal that begins at a write and lasts to the
// end of the run. The server refuses all calls in the namespace of the write,
// or all writes to its object. Each write has plans of its own, even if an
// earlier write was to the same object or namespace, because the program has
// done more work by then.
func (p *planner) lasting() []plan.Plan {
	writes := p.calls(func(c *call) bool { return c.effect })
	inNamespaces := p.calls(func(c *call) bool { return c.effect && c.Namespace != "" })
	return append(plansOf(plan.Barred, inNamespaces, 0), plansOf(plan.Poisoned, writes, 0)...)
}

// notFound returns plans in which a call is answered with 404 although its
// object is not deleted. The answer comes from a proxy, or from a server that
// does not serve the version, or is about a different object.
func (p *planner) notFound() []plan.Plan {
	var plans []plan.Plan
	for _, f := range []apisim.Fault{apisim.ProxyNotFound, apisim.NotServed, apisim.OtherNotFound} {
		plans = append(plans, plansOf(plan.AtCall, p.calls(func(c *call) bool { return c.may(f) }), f)...)
	}
	return plans
}

// quieter returns plans that are less likely to fail: stops at times without a
// write, and additions by other clients.
func (p *planner) quieter() []plan.Plan {
	reads := plansOf(plan.Stopped, p.calls(func(c *call) bool { return !c.effect }), 0)
	reads = append(reads, plansOf(plan.Halted, upTo(p.reference.deliveries), 0)...)
	for _, w := range p.reference.waits {
		reads = append(reads, numbered(plan.Paused, w.number, w.replica))
	}
	if p.drift {
		reads = append(reads, plansOf(plan.Marked, upTo(len(p.reference.written)), 0)...)
	}
	return reads
}

// restarts returns plans with a restart at rest. The program finds the world
// unchanged, gets one list late, or was down during a part of the workload. It
// also returns plans in which all processes sleep for an hour.
func (p *planner) restarts() []plan.Plan {
	var plans []plan.Plan
	steps := len(p.c.Workload)
	for rest := range p.reference.states {
		plans = append(plans, numbered(plan.Restarted, rest+1, 0))
	}
	for rest := range p.reference.states {
		for i := range len(p.reference.uses.watched) {
			plans = append(plans, numbered(plan.Unsynced, rest+1, i+1))
		}
	}
	for n := 1; n <= 2; n++ {
		for step := 1; step+n-1 <= steps; step++ {
			plans = append(plans, numbered(plan.Offline, step, n))
		}
	}
	return append(plans, plansOf(plan.Asleep, upTo(len(p.reference.states)), 0)...)
}

// writeFaults returns plans with a fault of a write that is less likely to
// reveal a bug than crashes and lost replies. For example, the write fails or
// is late. It also returns plans in which another client writes to an object
// just before the program reads or changes it.
func (p *planner) writeFaults() []plan.Plan {
	var plans []plan.Plan
	for _, f := range []apisim.Fault{
		apisim.CrashBefore, apisim.Conflict, apisim.Internal, apisim.Throttled, apisim.Late,
	} {
		plans = append(plans, plansOf(plan.AtCall, p.calls(func(c *call) bool { return c.effect && c.may(f) }), f)...)
	}
	changes := p.calls(func(c *call) bool {
		return c.Name != "" && (c.Verb == "get" || c.effect && c.Verb != "create")
	})
	return append(plans, plansOf(plan.Rivalled, changes, 0)...)
}

// readFaults returns plans with a failed read, and plans with a slow call of
// any kind except watches.
func (p *planner) readFaults() []plan.Plan {
	reads := p.calls(func(c *call) bool { return !c.Write() })
	plans := plansOf(plan.AtCall, reads, apisim.Internal)
	for _, f := range []apisim.Fault{apisim.Expired, plan.Hold} {
		plans = append(plans, plansOf(plan.AtCall, p.calls(func(c *call) bool { return c.may(f) }), f)...)
	}
	return plans
}

// staleRestarts returns plans with a restart after which the caches show an
// older state, as if an API server lagged behind. There is one plan for each of
// the last writes to a watched resource before the restart, but at most 40 for
// one restart.
func (p *planner) staleRestarts() []plan.Plan {
	var plans []plan.Plan
	for rest, commits := range p.reference.commits {
		for n := range min(commits, mostWritesBehind) {
			plans = append(plans, numbered(plan.Restarted, rest+1, n+1))
		}
	}
	return plans
}

// drifts returns plans in which another client deletes an output that only the
// program has written, or edits an output that has a value to edit.
func (p *planner) drifts() []plan.Plan {
	var unstepped, edited []int
	for i, o := range p.reference.outputs {
		if !o.stepped {
			unstepped = append(unstepped, i+1)
		}
		if o.leaf != nil {
			edited = append(edited, i+1)
		}
	}
	return append(plansOf(plan.Deleted, unstepped, 0), plansOf(plan.Edited, edited, 0)...)
}

// worlds returns plans in which the server differs from what the program may
// expect. For example, it was restored from a backup, has a mutating webhook,
// or has a different clock.
func (p *planner) worlds() []plan.Plan {
	var plans []plan.Plan
	for rest, n := range p.reference.undoable {
		for _, n := range spread(upTo(n)) {
			plans = append(plans, numbered(plan.Restored, rest+1, n))
		}
	}
	for i := range p.c.resources() {
		for _, rest := range slices.Compact([]int{1, len(p.reference.states)}) {
			plans = append(plans, numbered(plan.Unserved, rest, i+1))
		}
	}
	plans = append(plans, plan.Plan{{Kind: plan.Mutated, Index: 1}}, plan.Plan{{Kind: plan.Silent, Index: 1}})
	return slices.Concat(plans, p.clocks(), p.rebirths())
}

// detentions returns plans that delete the same outputs and inputs as drifts
// and changes do, while a finalizer of another client delays the deletion.
func (p *planner) detentions() []plan.Plan {
	var plans []plan.Plan
	for i, o := range p.reference.outputs {
		if !o.stepped && p.drift {
			plans = append(plans, plan.Plan{{Kind: plan.Detained, Index: i + 1}})
		}
	}
	for i, input := range p.reference.inputs {
		if input.fresh != nil {
			plans = append(plans, plan.Plan{{Kind: plan.Held, Index: i + 1}})
		}
	}
	return plans
}

// undecodable returns plans that create an object that Go cannot decode. For
// each custom resource, one creates it at the start, and one at the first rest.
func (p *planner) undecodable() []plan.Plan {
	var plans []plan.Plan
	for i := range p.samples {
		plans = append(plans, numbered(plan.Garbled, i+1, 0), numbered(plan.Garbled, i+1, 1))
	}
	return plans
}

// changes returns plans in which another client edits a value of an input, or
// deletes and creates an input that has no owner.
func (p *planner) changes() []plan.Plan {
	var plans []plan.Plan
	for i, input := range p.reference.inputs {
		for n := range input.edits {
			plans = append(plans, numbered(plan.Altered, i+1, n+1))
		}
		if input.fresh != nil {
			plans = append(plans, plan.Plan{{Kind: plan.Replaced, Index: i + 1}})
		}
	}
	return plans
}

// plansOf returns a plan for each index, with the same kind of deviation and
// the same fault.
func plansOf(kind byte, indices []int, f apisim.Fault) []plan.Plan {
	var plans []plan.Plan
	for _, i := range indices {
		plans = append(plans, plan.Plan{{Kind: kind, Index: i, Fault: f}})
	}
	return plans
}

// numbered returns a plan of one deviation whose N is n. For example, the N of
// a restart is the number of writes by which the caches are behind.
func numbered(kind byte, index, n int) plan.Plan { return plan.Plan{{Kind: kind, Index: index, N: n}} }

// upTo returns the numbers from 1 to n, because the indices of deviations begin
// with 1.
func upTo(n int) []int {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i + 1
	}
	return numbers
}

// mixed shuffles plans. The order is the same in every exploration.
func mixed(plans []plan.Plan) []plan.Plan {
	rng := rand.New(rand.NewPCG(1, 1))
	rng.Shuffle(len(plans), func(i, j int) { plans[i], plans[j] = plans[j], plans[i] })
	return plans
}

// calls returns the indices of the calls in the run without faults for which
// want returns true.
func (p *planner) calls(want func(c *call) bool) []int {
	var numbers []int
	for i, c := range p.reference.calls {
		if want(c) {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// pairs returns the plans with two deviations that find most bugs. First, an
// output is deleted or edited while its watch ends, so that the program gets no
// event. Then follow, mixed, two other kinds. One is a crash or a lost reply
// together with a slow watch, so that the program neither remembers nor sees
// its own write. The other is a slow watch while the workload continues.
func (p *planner) pairs() []plan.Plan {
	return append(p.unseenDrifts(), mixed(append(p.forgotten(), p.overtaken()...))...)
}

// unseenDrifts returns plans in which an output is deleted or edited, and the
// watch ends at the event of that change.
func (p *planner) unseenDrifts() []plan.Plan {
	var plans []plan.Plan
	if !p.drift {
		return nil
	}
	for _, d := range p.drifts() {
		for _, f := range []apisim.Fault{apisim.Expired, apisim.Dropped} {
			plans = append(plans, plan.Plan{d[0], {Kind: plan.AtDelivery, Index: p.reference.deliveries + 1, Fault: f}})
		}
	}
	return plans
}

// overtaken returns plans that hold back a watch, and do the next step of the
// workload a little later.
func (p *planner) overtaken() []plan.Plan {
	var plans []plan.Plan
	if len(p.c.Workload) == 0 {
		return nil
	}
	for i, decision := range p.reference.delivered {
		for _, delay := range []int{1, 3, 6} {
			plans = append(plans, plan.Plan{
				{Kind: plan.AtDelivery, Index: i + 1, Fault: plan.Hold}, {Kind: plan.Early, Index: decision + delay},
			})
		}
	}
	return plans
}

// forgotten returns plans that combine a crash or a lost reply with a slow
// watch.
func (p *planner) forgotten() []plan.Plan {
	var plans []plan.Plan
	for _, i := range p.calls(func(c *call) bool { return c.effect }) {
		for d := range p.reference.deliveries {
			for _, f := range []apisim.Fault{apisim.CrashAfter, apisim.LostReply} {
				plans = append(plans, plan.Plan{
					{Kind: plan.AtCall, Index: i, Fault: f}, {Kind: plan.AtDelivery, Index: d + 1, Fault: plan.Hold},
				})
			}
		}
	}
	return plans
}

// otherEnd reports whether a correct program may end in a different state under
// the plan than without faults. For example, the end is different if another
// client has edited an input.
func otherEnd(p plan.Plan) bool {
	_, lasts := p.Lasting()
	return lasts || p.Changes()
}

// byItself reports whether a plan must not be combined with other plans. There
// are three such plans: a finding that follows from a misleading 404 has a text
// of its own; a webhook sets the same label as another client, so their
// additions could not be told apart; and a program may wait for a clock that is
// hours ahead.
func byItself(p plan.Plan) bool {
	_, misleads := p.Misleads()
	return misleads || p.Has(plan.Mutated) || p.Clock() == plan.FarAhead
}

// mostAtOnce is the largest number of deviations that a seed adds to its order.
const mostAtOnce = 3

// seeded returns the plan of a seed. It consists of a random order of all
// actions, and up to three of the single deviations.
func seeded(seed int, singles []plan.Plan) plan.Plan {
	rng := rand.New(rand.NewPCG(uint64(seed), 2))
	p := plan.Plan{{Kind: plan.Shuffled, Index: seed}}
	if len(singles) == 0 {
		return p
	}
	for range rng.IntN(mostAtOnce + 1) {
		if single := singles[rng.IntN(len(singles))]; !otherEnd(single) && !byItself(single) {
			p = append(p, single...)
		}
	}
	return p
}
