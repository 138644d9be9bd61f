package reconciletest

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
)

// unservedTime is how long a custom resource is not served.
const unservedTime = 5 * time.Minute

// unserve lets the server not serve the n-th custom resource for a while, as if
// a user had applied the wrong CustomResourceDefinition by mistake. Afterwards
// its objects are there again. In the meantime the program must not delete what
// it has made for them.
func (r *run) unserve(n int) {
	resources := r.c.resources()
	if n > len(resources) {
		return
	}
	only := resources[n-1].GVR()
	r.delays.begin(outage{
		fault: apisim.NotServed, lasts: unservedTime, only: only, words: only.GroupResource().String() + " is not served",
	})
	r.judge.protect()
	r.sim.EndWatches(only)
}

// silentOf returns the aggregated API whose server does not answer, or the zero
// value if the plan has no such server.
func silentOf(p plan.Plan) schema.GroupVersion {
	if !p.Has(plan.Silent) {
		return schema.GroupVersion{}
	}
	return schema.GroupVersion{Group: "metrics.k8s.io", Version: "v1beta1"}
}
