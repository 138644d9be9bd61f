package state

import (
	"maps"
	"slices"
)

// foreignNumber is a number that no program sets by itself.
const foreignNumber = int64(7_000_007)

// FieldsOfObjects returns at most one foreign field for objects without a
// schema: the first string or integer of the spec, by name, that some of the
// objects have and others do not.
func FieldsOfObjects(objects []map[string]any) []ForeignField {
	values, times := map[string]any{}, map[string]int{}
	for _, o := range objects {
		spec, _ := o["spec"].(map[string]any)
		for name, v := range spec {
			switch v.(type) {
			case string:
				values[name] = RivalName
			case int64:
				values[name] = foreignNumber
			}
			times[name]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if times[name] < len(objects) {
			return []ForeignField{{Path: []string{name}, Value: values[name]}}
		}
	}
	return nil
}

// FieldsOfSchema returns foreign fields for objects with a schema, which is
// OpenAPI: an optional field of the spec, and an optional field of the elements
// of a list. It returns no fields if the object or its spec has validation
// rules, because a rule may demand more than one field.
func FieldsOfSchema(openAPI map[string]any) []ForeignField {
	properties, _ := openAPI["properties"].(map[string]any)
	spec, _ := properties["spec"].(map[string]any)
	if openAPI[validations] != nil || spec[validations] != nil {
		return nil
	}
	fields := optional(spec)
	inSpec, _ := spec["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(inSpec)) {
		list, _ := inSpec[name].(map[string]any)
		items, _ := list["items"].(map[string]any)
		if list[validations] != nil || items[validations] != nil {
			continue
		}
		if inItems := optional(items, name, "*"); len(inItems) > 0 {
			return append(fields, inItems...)
		}
	}
	return fields
}

const validations = "x-kubernetes-validations"

// optional returns the first field, by name, that is a boolean, an integer or a
// string, that is optional, and whose values the schema does not restrict.
// schema describes the object at path. optional returns nil if there is no such
// field.
func optional(schema map[string]any, path ...string) []ForeignField {
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	values := map[string]any{"boolean": true, "integer": foreignNumber, "string": RivalName}
	plain := []string{"type", "description", "nullable", "title"}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property, _ := properties[name].(map[string]any)
		kind, _ := property["type"].(string)
		value, simple := values[kind]
		restricted := slices.ContainsFunc(slices.Collect(maps.Keys(property)), func(key string) bool {
			return !slices.Contains(plain, key) && (key != "format" || kind != "integer")
		})
		if simple && !restricted && !slices.Contains(required, any(name)) {
			return []ForeignField{{Path: append(slices.Clone(path), name), Value: value}}
		}
	}
	return nil
}
