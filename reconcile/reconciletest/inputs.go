package reconciletest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// input is an object that the program watches or reads, and has not created. In
// runs of their own, another client edits the inputs that exist at the end of
// the workload, or deletes them and creates them again. Such a run may end in a
// different state than the run without faults. Therefore a different rule
// applies to it: the program must react to the change without a restart.
type input struct {
	resource, key string
	edits         []Step
	fresh         *unstructured.Unstructured // the object as a client would create it again; nil if it has an owner
}

const (
	mostEdits  = 3 // the maximum number of edits of the content of one input
	mostLabels = 2 // the maximum number of labels of one input that are edited
	// hourOfSteps is the number of additional steps that a program may take in
	// an hour, for example to renew a Lease.
	hourOfSteps = 50_000
)

// inputs returns the objects that the program may have read and has not
// created, in the order of resources and names. It leaves out the resources in
// Case.Unwatched and objects that are being deleted.
func (r *run) inputs() []input {
	var inputs []input
	for _, res := range r.sim.Resources() {
		resource := res.GVR().GroupResource().String()
		uses := r.out.uses.watched[resource] || r.out.uses.read[resource]
		if !uses || state.Ignored(res.GVR().GroupResource()) || slices.Contains(r.c.Unwatched, resource) {
			continue
		}
		for _, o := range r.sim.Objects(res.GVR()) {
			if _, isOwn := r.judge.created[o.GetUID()]; !isOwn && o.GetDeletionTimestamp() == nil {
				inputs = append(inputs, r.input(resource, o))
			}
		}
	}
	return inputs
}

func (r *run) input(resource string, o *unstructured.Unstructured) input {
	result := input{resource: resource, key: state.KeyOf(o)}
	content := maps.Clone(o.Object)
	for _, field := range []string{"apiVersion", "kind", "metadata", "status", "type", "immutable"} {
		delete(content, field)
	}
	edits := editsOf(r.ignore, resource, content)
	result.edits = stepsOf(result, edits[:min(len(edits), mostEdits)])
	labels := editsOf(r.ignore, "", map[string]any{"metadata": map[string]any{"labels": labelsOf(o)}})
	result.edits = append(result.edits, stepsOf(result, labels[:min(len(labels), mostLabels)])...)
	if len(o.GetOwnerReferences()) == 0 {
		result.fresh = created(o, r.judge.reported[o.GetUID()])
	}
	return result
}

func labelsOf(o *unstructured.Unstructured) map[string]any {
	labels := map[string]any{}
	for key, value := range o.GetLabels() {
		if key != "kubernetes.io/metadata.name" && key != state.RivalKey {
			labels[key] = value
		}
	}
	return labels
}

// editsOf returns merge patches for the strings, integers and booleans in
// content that are not ignored. Each patch changes one of them.
func editsOf(ignore *state.Ignore, resource string, content map[string]any, path ...string) []map[string]any {
	var edits []map[string]any
	for _, field := range slices.Sorted(maps.Keys(content)) {
		full := append(slices.Clone(path), field)
		if ignore.Covers(resource, full...) {
			continue
		}
		switch v := content[field].(type) {
		case string:
			edited := v + "-edited"
			if resource == "secrets" {
				edited = base64.StdEncoding.EncodeToString([]byte("edited"))
			}
			edits = append(edits, map[string]any{field: edited})
		case int64:
			edits = append(edits, map[string]any{field: v + 1})
		case bool:
			edits = append(edits, map[string]any{field: !v})
		case map[string]any:
			for _, inner := range editsOf(ignore, resource, v, full...) {
				edits = append(edits, map[string]any{field: inner})
			}
		}
	}
	return edits
}

func stepsOf(object input, edits []map[string]any) []Step {
	var steps []Step
	for _, edit := range edits {
		body, _ := json.Marshal(edit) // strings, numbers and maps can always be encoded
		steps = append(steps, Patch(object.resource, object.key, string(body)))
	}
	return steps
}

// created returns an object as a client would create it. If reported is set,
// the program has written the status, and created leaves it out.
func created(o *unstructured.Unstructured, reported bool) *unstructured.Unstructured {
	fresh := o.DeepCopy()
	for _, field := range []string{
		"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "finalizers", "selfLink",
	} {
		unstructured.RemoveNestedField(fresh.Object, "metadata", field)
	}
	if reported {
		delete(fresh.Object, "status")
	}
	return fresh
}

// change edits an input, or deletes and creates it again, if the plan says so,
// and lets the program react. The plan may also delete an input while another
// client's finalizer holds it, or recreate the definition of a custom resource
// with its inputs.
func (r *run) change(ctx context.Context) {
	for i, target := range r.out.inputs {
		if d, now := r.plan.Find(plan.Altered, i+1); now && d.N <= len(target.edits) && r.out.finding == nil {
			r.alter(ctx, target, "edited", target.edits[d.N-1])
		}
		if _, now := r.plan.Find(plan.Replaced, i+1); now && target.fresh != nil && r.out.finding == nil {
			r.alter(ctx, target, "deleted and created again", Delete(target.resource, target.key), Create(target.fresh))
		}
		if _, now := r.plan.Find(plan.Held, i+1); now && target.fresh != nil && r.out.finding == nil {
			r.struck()
			r.out.changed = target.resource + " " + target.key + " was deleted while a finalizer held it"
			r.detain(ctx, target.resource, target.key)
			r.awaitReaction(ctx)
		}
	}
	for i, res := range r.c.resources() {
		if _, now := r.plan.Find(plan.Reborn, i+1); now && r.out.finding == nil {
			r.recreateDefinition(ctx, res)
		}
	}
}

func (r *run) alter(ctx context.Context, target input, change string, steps ...Step) {
	r.struck()
	r.out.changed = target.resource + " " + target.key + " was " + change
	for _, s := range steps {
		r.stepAsOther(ctx, s)
		r.waitQuiet(ctx)
	}
	r.awaitReaction(ctx)
}

// awaitReaction gives the program an hour to react to a change, if the setting
// of the run is long.
func (r *run) awaitReaction(ctx context.Context) {
	if !r.setting.long {
		return
	}
	deadline := time.Now().Add(sleepTime)
	r.steps -= hourOfSteps
	r.runUntil(ctx, func() time.Time { return deadline })
	r.steps += hourOfSteps
}

// recordIgnored records the first write that the program makes after a restart
// that follows the change of an input. The running program should have made
// this write before the restart.
func (r *judge) recordIgnored(write string) {
	if r.out.ignored == nil {
		reason := report.ChangeIgnored
		if r.given.Has(plan.Reborn) {
			reason = report.Reborn
		}
		r.out.ignored = &report.Finding{
			Oracle: report.Tail, Reason: reason, UpTo: len(r.out.lines), Text: fmt.Sprintf(
				"%s, and an hour later nothing had followed; a restart then wrote: %s", r.out.changed, write),
		}
	}
}

// restartAgain restarts the program a second time. It records the finding of
// recordIgnored unless this restart writes an object, too: a program that
// writes at every restart has not missed the change.
func (r *run) restartAgain(ctx context.Context) {
	found, writesBefore := r.out.ignored, r.out.writes
	r.restart(ctx)
	if r.out.finding == nil && r.out.writes == writesBefore {
		r.out.finding = found
	}
}
