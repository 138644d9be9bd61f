package reconciletest

import (
	"context"
	"time"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// rebirths returns plans in which the CustomResourceDefinition of a custom
// resource is deleted and created again. There is one plan for each custom
// resource with an input that has no owner.
func (p *planner) rebirths() []plan.Plan {
	var plans []plan.Plan
	for i, res := range p.c.resources() {
		if len(freshOf(p.reference.inputs, res)) > 0 {
			plans = append(plans, plan.Plan{{Kind: plan.Reborn, Index: i + 1}})
		}
	}
	return plans
}

// freshOf returns the inputs of a resource that have no owner. A user would
// create them again.
func freshOf(inputs []input, res apisim.Resource) []input {
	var fresh []input
	for _, object := range inputs {
		if object.fresh != nil && object.resource == res.GVR().GroupResource().String() {
			fresh = append(fresh, object)
		}
	}
	return fresh
}

// collectorDelay is how long the garbage collector does nothing after the kind
// is served again.
const collectorDelay = 2 * time.Minute

// recreateDefinition deletes the CustomResourceDefinition of a custom resource
// with all objects, and creates it and the inputs of the program again. In the
// meantime the program sees only 404, and gets no event of a deletion. When it
// sees objects again, they have the same names and other UIDs.
//
// The garbage collector cannot look up owners of a kind that is not served, so
// it deletes their dependents later. Otherwise a correct program, whose cache
// still has the owners, would create the dependents again and again.
func (r *run) recreateDefinition(ctx context.Context, res apisim.Resource) {
	resource, fresh := res.GVR().GroupResource().String(), freshOf(r.out.inputs, res)
	if len(fresh) == 0 {
		return
	}
	r.struck()
	r.out.changed = "the CustomResourceDefinition of " + resource + " was deleted and created again with its objects"
	r.delays.begin(outage{
		fault: apisim.NotServed, lasts: unservedTime, resource: res.GVR(), words: resource + " is deleted with its objects",
	})
	r.delays.actors[apisim.Work.String()+" "+collecting] = r.delays.outageTill.Add(collectorDelay - actorDelay)
	r.sim.EndWatches(res.GVR())
	for _, o := range r.sim.Objects(res.GVR()) {
		key := state.KeyOf(o)
		if len(o.GetFinalizers()) > 0 {
			r.stepAsOther(ctx, Patch(resource, key, finalizersOf(nil)))
		}
		r.stepAsOther(ctx, Delete(resource, key))
	}
	for _, object := range fresh {
		r.stepAsOther(ctx, Create(object.fresh))
	}
	r.waitQuiet(ctx)
	r.awaitReaction(ctx)
}
