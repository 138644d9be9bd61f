package reconciletest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
)

// output is an object that the program made. Those that exist at the end of the workload are deleted and edited in
// runs of their own, unless Options.SkipDrift is set.
type output struct {
	resource, key string
	leaf          []string // the path of a value that may be edited; nil: there is none
	value         any      // what an edit makes of it
}

// drift deletes or edits an output, if the plan says so. The program has to repair it: the state at the end is compared
// as in every run.
func (r *run) drift(ctx context.Context) {
	for i, o := range r.out.outputs {
		steps := []struct {
			at byte
			do Step
		}{{plan.Deleted, Delete(o.resource, o.key)}, {plan.Edited, o.edit()}}
		for _, s := range steps {
			if _, now := r.plan.Find(s.at, i+1); !now || r.out.finding != nil {
				continue
			}
			r.struck()
			r.line("others    " + s.do.Name)
			r.progress = time.Now()
			if err := s.do.Do(ctx, r.world); err != nil && !apierrors.IsNotFound(err) {
				r.line(fmt.Sprint("  ", err))
			}
			r.settle(ctx)
		}
	}
}

// edit returns a step that changes one value which the program gave the output.
func (o *output) edit() Step {
	value := o.value
	for _, field := range slices.Backward(o.leaf) {
		value = map[string]any{field: value}
	}
	body, _ := json.Marshal(value) // of strings, numbers and maps
	step := Patch(o.resource, o.key, string(body))
	if len(o.leaf) == 0 {
		return Step{Name: "edit " + o.resource + " " + o.key, Do: func(context.Context, *World) error { return nil }}
	}
	return step
}

// editable holds the built-in resources whose content may change at any time, as that of custom resources may.
var editable = map[string]string{
	"configmaps": "data", "secrets": "data", "services": "spec", "deployments.apps": "spec",
	"ingresses.networking.k8s.io": "spec",
}

// leaf finds a value of a new object that another client could edit, and what it would make of it.
func leaf(c *Case, resource string, o *unstructured.Unstructured) ([]string, any) {
	at, known := editable[resource]
	custom := func(r metav1.APIResource) bool { return resource == r.Name+"."+r.Group }
	if !known && slices.ContainsFunc(c.Resources, custom) {
		at, known = "spec", true
	}
	content, _ := o.Object[at].(map[string]any)
	if !known || content == nil {
		return nil, nil
	}
	path := []string{at}
	for {
		field, inner := firstField(content)
		if field == "" {
			return nil, nil
		}
		path = append(path, field)
		switch v := content[field].(type) {
		case string:
			if resource == "secrets" {
				return path, "ZWRpdGVk"
			}
			return path, v + "-edited"
		case int64:
			return path, v + 1
		}
		content = inner
	}
}

// firstField finds the first field that is a string, a number or a map that is not empty.
func firstField(content map[string]any) (string, map[string]any) {
	for _, field := range slices.Sorted(maps.Keys(content)) {
		switch v := content[field].(type) {
		case string, int64:
			return field, nil
		case map[string]any:
			if len(v) > 0 {
				return field, v
			}
		}
	}
	return "", nil
}
