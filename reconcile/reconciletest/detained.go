package reconciletest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// detain deletes an object while another client's finalizer delays the
// deletion. It lets the program react, and then removes the finalizer. It does
// nothing if the object does not exist or is being deleted already.
func (r *run) detain(ctx context.Context, resource, key string) {
	o := &output{resource: resource, key: key}
	original := r.object(o)
	if original == nil || original.GetDeletionTimestamp() != nil {
		return
	}
	r.stepAsOther(ctx, Patch(resource, key, finalizersOf(append(original.GetFinalizers(), state.RivalKey))))
	refused := map[*refusal]int{}
	for _, f := range r.out.refused {
		refused[f] = f.times
	}
	r.stepAsOther(ctx, Delete(resource, key))
	r.waitQuiet(ctx)
	for _, f := range r.out.refused {
		if times := f.times - refused[f]; !f.done && times >= oftenRefused {
			r.find(report.Vain, report.Refused, fmt.Sprintf(
				"%s %s is being deleted, and another client's finalizer holds it: the server refuses a write again and again: "+
					"%s%s%s\n    %d times%s", resource, key, f.write, report.Answered, f.answer, times, onRecord))
		}
	}
	current := r.object(o)
	if current == nil || current.GetUID() != original.GetUID() {
		return
	}
	finalizers := slices.DeleteFunc(current.GetFinalizers(), func(f string) bool { return f == state.RivalKey })
	r.stepAsOther(ctx, Patch(resource, key, finalizersOf(finalizers)))
	r.waitQuiet(ctx)
}

// finalizersOf returns a merge patch that sets the finalizers of an object.
func finalizersOf(list []string) string {
	body, _ := json.Marshal(append([]string{}, list...)) // strings can always be encoded
	return fmt.Sprintf(`{"metadata":{"finalizers":%s}}`, body)
}
