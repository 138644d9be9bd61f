package reconciletest

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// marksOf returns a description of each label and annotation of an object,
// except the ones that the exploration itself adds.
func marksOf(o *unstructured.Unstructured) map[string]bool {
	marks := map[string]bool{}
	if o != nil {
		for key := range o.GetLabels() {
			marks["the label "+key] = true
		}
		for key := range o.GetAnnotations() {
			marks["the annotation "+key] = true
		}
	}
	// the exploration's own additions are checked by other rules
	delete(marks, "the label "+state.RivalKey)
	delete(marks, "the annotation "+state.RivalKey)
	return marks
}

// stepped records the labels and annotations that a step adds to an object of
// the program. The program must not remove them, because they are not its own.
func (r *judge) stepped(e apisim.Event) {
	uid := e.New.GetUID()
	had := marksOf(e.Old)
	for mark := range marksOf(e.New) {
		if had[mark] || r.acting {
			continue
		}
		if r.stepMarks[uid] == nil {
			r.stepMarks[uid] = map[string]bool{}
		}
		r.stepMarks[uid][mark] = true
	}
	maps.DeleteFunc(r.stepMarks[uid], func(mark string, _ bool) bool { return !marksOf(e.New)[mark] })
}

// checkSteps records a finding if a write of the program removes a label or an
// annotation that a step has added.
func (r *judge) checkSteps(e apisim.Event, resource string) {
	if e.New == nil || len(r.stepMarks[e.New.GetUID()]) == 0 {
		return
	}
	have := marksOf(e.New)
	for _, mark := range slices.Sorted(maps.Keys(r.stepMarks[e.New.GetUID()])) {
		if !have[mark] {
			r.find(report.Lost, report.Overwrites, fmt.Sprintf(
				"it removes %s from %s %s, which a step of the workload has added", mark, resource, e.Key))
		}
	}
}
