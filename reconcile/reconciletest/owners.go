package reconciletest

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
)

// checkOwners records a finding if the program adds an owner reference to an
// object that never existed. An owner that existed and was deleted is not a
// finding, because a cache may still contain it.
func (r *judge) checkOwners(e apisim.Event, resource string) {
	if e.New == nil {
		return
	}
	var oldRefs []metav1.OwnerReference
	if e.Old != nil {
		oldRefs = e.Old.GetOwnerReferences()
	}
	for _, ref := range e.New.GetOwnerReferences() {
		isSame := func(o metav1.OwnerReference) bool { return o.UID == ref.UID && o.Kind == ref.Kind }
		if slices.ContainsFunc(oldRefs, isSame) {
			continue
		}
		if fault := r.stray(ref); fault != "" {
			r.find(report.Owner, report.StrayOwner, fmt.Sprintf("%s %s has the owner %s %s %q, and %s",
				resource, e.Key, ref.APIVersion, ref.Kind, ref.Name, fault))
		}
	}
}

// stray returns the reason why an owner reference does not lead to an object.
// It returns "" if the object exists or has existed, or if the simulated server
// does not have its built-in kind.
func (r *judge) stray(ref metav1.OwnerReference) string {
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	served := slices.ContainsFunc(r.sim.Resources(), func(res apisim.Resource) bool {
		return res.Kind == gvk.Kind && res.GVR().GroupVersion() == gvk.GroupVersion()
	})
	if !served {
		if scheme.Scheme.Recognizes(gvk) { // the simulated server does not have all built-in kinds
			return ""
		}
		return "the server serves no such kind"
	}
	if r.born[ref.UID] {
		return ""
	}
	for _, res := range r.sim.Resources() {
		for _, o := range r.sim.Objects(res.GVR()) {
			if r.born[o.GetUID()] = true; o.GetUID() == ref.UID {
				return ""
			}
		}
	}
	return fmt.Sprintf("no object has or had its UID, %q", ref.UID)
}
