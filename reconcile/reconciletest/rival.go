package reconciletest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// rival annotates the object of a call that is about to be served.
func (r *run) rival(c apisim.Call) {
	key := c.Name
	if c.Namespace != "" {
		key = c.Namespace + "/" + c.Name
	}
	resource := c.Resource.GroupResource().String()
	step := Patch(resource, key, `{"metadata":{"annotations":{"`+state.RivalKey+`":"was here"}}}`)
	if err := step.Do(context.Background(), r.world); err != nil {
		return // it is not there
	}
	r.line("RIVAL     annotates " + resource + " " + key)
	for _, o := range r.sim.Objects(c.Resource) {
		if o.GetNamespace() == c.Namespace && o.GetName() == c.Name {
			r.rivals[o.GetUID()] = true
		}
	}
}

// wipes finds a write that takes away what the rival has annotated.
func (r *run) wipes(e apisim.Event, resource string) {
	if e.Old == nil || e.New == nil {
		return
	}
	if r.rivals[e.New.GetUID()] && e.Old.GetAnnotations()[state.RivalKey] != "" && e.New.GetAnnotations()[state.RivalKey] == "" {
		r.find(report.Lost, fmt.Sprintf("it wipes away what somebody else has just written to %s %s, an annotation",
			resource, e.Key))
	}
}

// edit changes one value that the program gave an output.
func edit(o output) Step {
	name := "edit " + o.resource + " " + o.key
	if len(o.leaf) == 0 {
		return Step{Name: name, Do: func(context.Context, *World) error { return nil }}
	}
	value := o.value
	for _, field := range slices.Backward(o.leaf) {
		value = map[string]any{field: value}
	}
	body, _ := json.Marshal(value) // of strings, numbers and maps
	return Patch(o.resource, o.key, string(body))
}

// editable are the built-in resources whose content may change at any time; and so may that of custom resources.
var editable = map[string]string{
	"configmaps": "data", "secrets": "data", "services": "spec", "deployments.apps": "spec",
	"ingresses.networking.k8s.io": "spec",
}

// leaf finds a value of a new object that somebody else could change, and what they would make of it.
func (r *run) leaf(resource string, o *unstructured.Unstructured) ([]string, any) {
	at, known := editable[resource]
	if !known && slices.ContainsFunc(r.c.Resources, func(x metav1.APIResource) bool { return resource == x.Name+"."+x.Group }) {
		at, known = "spec", true
	}
	content, _ := o.Object[at].(map[string]any)
	if !known || content == nil {
		return nil, nil
	}
	path := []string{at}
	for {
		field, inner := first(content)
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

// first finds the first field that is a string, a number or a map.
func first(content map[string]any) (string, map[string]any) {
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
