package reconciletest

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
)

// unservedTime is how long a custom resource is not served.
const unservedTime = 5 * time.Minute

// unserve makes the server stop serving the n-th custom resource for a while,
// as if a user had applied the wrong CustomResourceDefinition by mistake.
// Afterwards the server serves the resource again, with all of its objects. In
// the meantime the program must not delete the objects that it has created for
// them.
func (r *run) unserve(n int) {
	resources := r.c.resources()
	if n > len(resources) {
		return
	}
	gvr := resources[n-1].GVR()
	r.delays.begin(outage{
		fault: apisim.NotServed, lasts: unservedTime, resource: gvr, words: gvr.GroupResource().String() + " is not served",
	})
	r.judge.protect()
	r.sim.EndWatches(gvr)
}

// silentOf returns the aggregated API whose server does not answer, or the zero
// value if the plan has no such server.
func silentOf(p plan.Plan) schema.GroupVersion {
	if !p.Has(plan.Silent) {
		return schema.GroupVersion{}
	}
	return schema.GroupVersion{Group: "metrics.k8s.io", Version: "v1beta1"}
}
