package state_test

import (
	"testing"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// The difference between two rests must not depend on whether a State is
// computed.
func TestRestsDifferAsTheirStatesDo(t *testing.T) {
	world := func() []map[string]any {
		return []map[string]any{
			{
				"apiVersion": "v1", "kind": "Service",
				"metadata": map[string]any{
					"namespace": "d", "name": "a", "uid": "u-1", "resourceVersion": "5", "generation": int64(1),
					"creationTimestamp": "2026-01-01T00:00:00Z", "labels": map[string]any{"x": "y"},
				},
				"spec": map[string]any{"clusterIP": "10.0.0.1", "ports": []any{map[string]any{"port": int64(80)}}},
			},
			{
				"metadata": map[string]any{"namespace": "d", "name": "b-xk2vz", "generateName": "b-", "uid": "u-2"},
				"status": map[string]any{
					"observedGeneration": int64(1), "at": "2026-01-01T00:00:00Z", "of": "u-1", "no": nil, "x": 1.5,
				},
			},
		}
	}
	set := func(i int, value any, path ...string) func([]map[string]any) []map[string]any {
		return func(w []map[string]any) []map[string]any {
			_ = unstructured.SetNestedField(w[i], value, path...)
			return w
		}
	}
	rest := func(w []map[string]any) *state.Rest {
		var all []state.Located
		for _, o := range w {
			all = append(all, state.Located{Resource: "services", Object: &unstructured.Unstructured{Object: o}})
		}
		return state.NewRest(all, nil)
	}
	for name, row := range map[string]struct {
		change func([]map[string]any) []map[string]any
		same   bool
	}{
		"nothing":    {func(w []map[string]any) []map[string]any { return w }, true},
		"a version":  {set(0, "6", "metadata", "resourceVersion"), true},
		"a creation": {set(0, "2027-01-01T00:00:00Z", "metadata", "creationTimestamp"), true},
		"a deletion": {set(0, "2027-01-01T00:00:00Z", "metadata", "deletionTimestamp"), true},
		"a manager":  {set(0, []any{map[string]any{"manager": "x"}}, "metadata", "managedFields"), true},
		"a uid":      {set(0, "u-3", "metadata", "uid"), false},
		"a uid, and a mention": {func(w []map[string]any) []map[string]any {
			return set(0, "u-3", "metadata", "uid")(set(1, "u-3", "status", "of")(w))
		}, true},
		"a generation":       {set(1, int64(1), "metadata", "generation"), false},
		"a name":             {set(0, "c", "metadata", "name"), false},
		"a generated name":   {set(1, "b-zzzzz", "metadata", "name"), true},
		"a namespace":        {set(0, "e", "metadata", "namespace"), false},
		"a label":            {set(0, "z", "metadata", "labels", "x"), false},
		"a label more":       {set(0, "z", "metadata", "labels", "w"), false},
		"a rival's label":    {set(0, "yes", "metadata", "labels", state.RivalKey), true},
		"a finalizer":        {set(0, []any{"a/b"}, "metadata", "finalizers"), false},
		"a time":             {set(1, "2027-01-01T00:00:00Z", "status", "at"), true},
		"a time, no more":    {set(1, "never", "status", "at"), false},
		"an address":         {set(0, "10.0.0.2", "spec", "clusterIP"), true},
		"no address":         {set(0, "None", "spec", "clusterIP"), false},
		"a number":           {set(1, 1.25, "status", "x"), false},
		"another kind of it": {set(1, "1.5", "status", "x"), true},
		"nothing, and false": {set(1, false, "status", "no"), false},
		"a field more":       {set(0, int64(1), "spec", "n"), false},
		"a part more":        {set(1, "x", "spec"), false},
		"a list":             {set(0, []any{}, "spec", "ports"), false},
		"an object less":     {func(w []map[string]any) []map[string]any { return w[:1] }, false},
		"another order": {func(w []map[string]any) []map[string]any {
			return []map[string]any{w[1], w[0]}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			var changed []map[string]any
			for _, o := range world() {
				changed = append(changed, runtime.DeepCopyJSON(o))
			}
			changed = row.change(changed)
			have, want := rest(changed), rest(world())
			lines := have.Diff(want, nil)
			g.Expect(lines).To(gomega.Equal(rest(changed).State().Diff(rest(world()).State(), nil)))
			if row.same {
				g.Expect(lines).To(gomega.BeEmpty())
			} else {
				g.Expect(lines).NotTo(gomega.BeEmpty())
			}
		})
	}
}
