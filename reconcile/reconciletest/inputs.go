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

// An input is an object that the program did not make, of a resource that it
// watches or reads. Those that exist at the end of the workload are edited, and
// deleted and created again, in runs of their own. Their end is not that of the
// run without faults, so they are judged by themselves: what follows from the
// change has to happen without a restart.
type input struct {
	resource, key string
	edits         []Step
	fresh         *unstructured.Unstructured // the object as a client would create it again; nil: it is somebody's
}

const (
	mostEdits  = 3 // of the content of one input
	mostLabels = 2 // of one input that are edited
	// hourOfSteps is how many steps more a program may take in an hour, for
	// example to renew a Lease.
	hourOfSteps = 50_000
)

// inputs returns the objects that the program may have read, in the order of
// resources and names.
func (r *run) inputs() []input {
	var all []input
	for _, res := range r.sim.Resources() {
		resource := res.GVR().GroupResource().String()
		uses := r.out.uses.watched[resource] || r.out.uses.read[resource]
		if !uses || state.Ignored(res.GVR().GroupResource()) || slices.Contains(r.c.Unwatched, resource) {
			continue
		}
		for _, o := range r.sim.Objects(res.GVR()) {
			if _, ours := r.judge.created[o.GetUID()]; !ours && o.GetDeletionTimestamp() == nil {
				all = append(all, r.input(resource, o))
			}
		}
	}
	return all
}

func (r *run) input(resource string, o *unstructured.Unstructured) input {
	in := input{resource: resource, key: state.KeyOf(o)}
	content := maps.Clone(o.Object)
	for _, field := range []string{"apiVersion", "kind", "metadata", "status", "type", "immutable"} {
		delete(content, field)
	}
	edits := editsOf(r.ignore, resource, content)
	in.edits = stepsOf(in, edits[:min(len(edits), mostEdits)])
	labels := editsOf(r.ignore, "", map[string]any{"metadata": map[string]any{"labels": labelsOf(o)}})
	in.edits = append(in.edits, stepsOf(in, labels[:min(len(labels), mostLabels)])...)
	if len(o.GetOwnerReferences()) == 0 {
		in.fresh = created(o, r.judge.reported[o.GetUID()])
	}
	return in
}

func labelsOf(o *unstructured.Unstructured) map[string]any {
	all := map[string]any{}
	for key, value := range o.GetLabels() {
		if key != "kubernetes.io/metadata.name" && key != state.RivalKey {
			all[key] = value
		}
	}
	return all
}

// editsOf returns merge patches, each of which changes one string, number or
// boolean in content that is not ignored.
func editsOf(ignore *state.Ignore, resource string, content map[string]any, path ...string) []map[string]any {
	var all []map[string]any
	for _, field := range slices.Sorted(maps.Keys(content)) {
		at := append(slices.Clone(path), field)
		if ignore.Covers(resource, at...) {
			continue
		}
		switch v := content[field].(type) {
		case string:
			edited := v + "-edited"
			if resource == "secrets" {
				edited = base64.StdEncoding.EncodeToString([]byte("edited"))
			}
			all = append(all, map[string]any{field: edited})
		case int64:
			all = append(all, map[string]any{field: v + 1})
		case bool:
			all = append(all, map[string]any{field: !v})
		case map[string]any:
			for _, inner := range editsOf(ignore, resource, v, at...) {
				all = append(all, map[string]any{field: inner})
			}
		}
	}
	return all
}

func stepsOf(in input, edits []map[string]any) []Step {
	var all []Step
	for _, edit := range edits {
		body, _ := json.Marshal(edit) // of strings, numbers and maps
		all = append(all, Patch(in.resource, in.key, string(body)))
	}
	return all
}

// created returns an object as a client would create it. A status that the
// program has reported is not a client's.
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
// and lets the program react.
func (r *run) change(ctx context.Context) {
	for i, in := range r.out.inputs {
		if d, now := r.plan.Find(plan.Altered, i+1); now && d.N <= len(in.edits) && r.out.finding == nil {
			r.alter(ctx, in, "edited", in.edits[d.N-1])
		}
		if _, now := r.plan.Find(plan.Replaced, i+1); now && in.fresh != nil && r.out.finding == nil {
			r.alter(ctx, in, "deleted and created again", Delete(in.resource, in.key), Create(in.fresh))
		}
	}
}

func (r *run) alter(ctx context.Context, in input, how string, steps ...Step) {
	r.struck()
	r.out.changed = in.resource + " " + in.key + " was " + how
	for _, s := range steps {
		r.others(ctx, s)
		r.waitQuiet(ctx)
	}
	if !r.setting.long {
		return
	}
	until := time.Now().Add(sleepTime)
	r.steps -= hourOfSteps
	r.live(ctx, func() time.Time { return until })
	r.steps += hourOfSteps
}

// unwoken keeps the first write of a restart that follows from a change of an
// input.
func (r *judge) unwoken(write string) {
	if r.out.unwoken == nil {
		r.out.unwoken = &report.Finding{
			Oracle: report.Tail, Reason: report.Unwoken, UpTo: len(r.out.lines), Text: fmt.Sprintf(
				"%s, and an hour later nothing had followed; a restart then wrote: %s", r.out.changed, write),
		}
	}
}

// onceMore restarts the program once more. If it writes again, then its
// restarts write whatever has happened before.
func (r *run) onceMore(ctx context.Context) {
	found, before := r.out.unwoken, r.out.writes
	r.restart(ctx)
	if r.out.finding == nil && r.out.writes == before {
		r.out.finding = found
	}
}
