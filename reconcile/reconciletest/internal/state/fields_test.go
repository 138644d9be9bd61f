package state_test

import (
	"testing"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

func service() map[string]any {
	return map[string]any{"spec": map[string]any{
		"sessionAffinity": "None", "ports": []any{map[string]any{"port": int64(80)}, map[string]any{"port": int64(81)}},
	}}
}

func TestAForeignFieldIsSetInEveryElementOfAList(t *testing.T) {
	g := gomega.NewWithT(t)
	fields := state.BuiltinFields["services"]
	o := service()
	for _, f := range fields {
		g.Expect(f.Free(o)).To(gomega.BeTrue(), f.String())
		f.Set(o)
		g.Expect(f.Values(o)).To(gomega.HaveEach(f.Value), f.String())
		g.Expect(f.Free(o)).To(gomega.BeFalse(), f.String())
	}
	g.Expect(fields[1].String()).To(gomega.Equal("spec.ports[*].appProtocol"))
	for _, f := range fields {
		f.Unset(o)
	}
	g.Expect(o).To(gomega.Equal(service()))
}

func TestFieldsOfASchemaAreOptionalAndUnrestricted(t *testing.T) {
	object := func(properties map[string]any, required ...any) map[string]any {
		return map[string]any{"type": "object", "properties": properties, "required": required}
	}
	property := func(kind string, more ...string) map[string]any {
		p := map[string]any{"type": kind}
		for _, key := range more {
			p[key] = "x"
		}
		return p
	}
	properties := map[string]any{
		"a": property("string", "enum"), "b": property("integer", "minimum"), "c": property("string"),
		"d": property("integer", "format"), "e": property("boolean"),
		"list": map[string]any{"type": "array", "items": object(map[string]any{
			"name": property("string"), "size": property("integer"),
		}, "name")},
	}
	names := func(spec map[string]any) []string {
		var all []string
		for _, f := range state.FieldsOfSchema(object(map[string]any{"spec": spec})) {
			all = append(all, f.String())
		}
		return all
	}
	g := gomega.NewWithT(t)
	g.Expect(names(object(properties, "c"))).To(gomega.Equal([]string{"spec.d", "spec.list[*].size"}))
	g.Expect(names(object(properties))).To(gomega.Equal([]string{"spec.c", "spec.list[*].size"}))
	ruled := object(properties)
	ruled["x-kubernetes-validations"] = []any{}
	g.Expect(names(ruled)).To(gomega.BeEmpty())
}

func TestFieldsOfObjectsReturnsFieldsThatOnlySomeObjectsHave(t *testing.T) {
	object := func(spec map[string]any) map[string]any { return map[string]any{"spec": spec} }
	g := gomega.NewWithT(t)
	g.Expect(state.FieldsOfObjects([]map[string]any{
		object(map[string]any{"all": "x", "some": int64(3)}), object(map[string]any{"all": "y"}),
	})).To(gomega.Equal([]state.ForeignField{{Path: []string{"some"}, Value: int64(7_000_007)}}))
	g.Expect(state.FieldsOfObjects([]map[string]any{object(map[string]any{"all": "x"})})).To(gomega.BeEmpty())
}

// The fields of neither side are changed by the union, and either may be nil.
func TestTheUnionOfForeignFieldsHasBoth(t *testing.T) {
	g := gomega.NewWithT(t)
	custom := state.ForeignFields{"widgets": nil}
	g.Expect(state.ForeignFields(nil).Union(custom)).To(gomega.Equal(custom))
	g.Expect(custom.Union(nil)).To(gomega.Equal(custom))
	both := state.BuiltinFields.Union(custom)
	g.Expect(both).To(gomega.HaveLen(len(state.BuiltinFields) + 1))
	g.Expect(state.BuiltinFields).NotTo(gomega.HaveKey("widgets"))
}
