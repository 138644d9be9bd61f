package reconciletest

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// foreignFields returns the fields of an object's spec that another client may
// set: fields that are unset or have the server's default, that the program has
// never sent, and that the case does not ignore. Fields of the elements of a
// list are left to the webhook, because a program that sends a list owns it as
// a whole.
func (r *run) foreignFields(o *unstructured.Unstructured, resource string) []state.ForeignField {
	return slices.DeleteFunc(slices.Clone(r.foreign[resource]), func(f state.ForeignField) bool {
		claimed := r.judge.claimed[claimOf(o.GetUID(), f)]
		return f.InList() || claimed || !f.Free(o.Object) || r.ignore.Covers(resource, f.Names()...)
	})
}

// marks returns a merge patch for another client's additions to an object. It
// sets a label, an annotation and the fields, or removes them if add is false.
// It also sets the finalizers.
func marks(add bool, fields []state.ForeignField, finalizers []string) string {
	mark, spec := map[string]any{state.RivalKey: nil}, map[string]any{}
	if add {
		mark[state.RivalKey] = "yes"
	}
	for _, f := range fields {
		spec[f.Path[0]] = nil
		if add {
			spec[f.Path[0]] = f.Value
		}
	}
	patch := map[string]any{"metadata": map[string]any{
		"labels": mark, "annotations": mark, "finalizers": append([]string{}, finalizers...),
	}}
	if len(spec) > 0 {
		patch["spec"] = spec
	}
	body, _ := json.Marshal(patch) // values from JSON can always be encoded
	return string(body)
}

// mutate changes the object of a call of the program as a mutating webhook
// does. It adds fields to a custom resource only if the program creates or has
// created the object. A field of any other custom object may be an input that
// changes what the program has to do.
func (r *judge) mutate(c apisim.Call, object map[string]any) {
	if !isProgram(c.Client) || r.old || state.Ignored(c.Resource.GroupResource()) {
		return
	}
	resource := c.Resource.GroupResource().String()
	fields := r.foreign[resource]
	if r.c.custom(resource) && c.Verb != "create" && !r.isOutput(object) {
		fields = nil
	}
	state.Mutate(fields, resource, c.Verb, object)
}

// customFields returns the foreign fields of the custom resources of the case
// that only the program creates, and whose status it does not write. Their spec
// is then read by another controller and not by the program.
func (x *explorer) customFields(first *outcome) state.ForeignFields {
	fields := state.ForeignFields{}
	for _, r := range x.c.resources() {
		resource := r.GVR().GroupResource().String()
		reports := func(c *call) bool { return c.effect && c.Subresource == "status" && c.Resource == r.GVR() }
		var objects []map[string]any
		for _, o := range first.states[len(first.states)-1].Objects() {
			if o.Resource == resource {
				objects = append(objects, o.Object.Object)
			}
		}
		if len(objects) == 0 || first.created[resource] != len(objects) || slices.ContainsFunc(first.calls, reports) {
			continue
		}
		if r.Schema == nil {
			fields[resource] = state.FieldsOfObjects(objects)
			continue
		}
		fields[resource] = slices.DeleteFunc(state.FieldsOfSchema(r.Schema.OpenAPI()), func(f state.ForeignField) bool {
			return slices.ContainsFunc(objects, func(o map[string]any) bool { return !accepts(r.Schema, f, o) })
		})
	}
	return fields
}

// accepts reports whether the schema allows another client to set the field f
// in the object o.
func accepts(s apisim.Schema, f state.ForeignField, o map[string]any) bool {
	set := (&unstructured.Unstructured{Object: o}).DeepCopy().Object
	f.Set(set)
	return len(s.Validate(set, nil, "")) == 0 && len(s.Validate(set, o, "")) == 0
}
