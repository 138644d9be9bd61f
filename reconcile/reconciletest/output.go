package reconciletest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// output is an object that the program has created. In runs of their own,
// another client deletes or edits the outputs that exist at the end of the
// workload, unless Options.SkipDrift is set.
type output struct {
	resource, key string
	leaf          []string // the path of a value that may be edited, or nil
	value         any      // the value at that path after an edit
	stepped       bool     // whether a step has also written to the object
}

// edit returns a step that changes one of the values that the program has given
// the output. If there is no such value, the step does nothing.
func (o *output) edit() Step {
	value := o.value
	for _, field := range slices.Backward(o.leaf) {
		value = map[string]any{field: value}
	}
	body, _ := json.Marshal(value) // strings, numbers and maps can always be encoded
	step := Patch(o.resource, o.key, string(body))
	if len(o.leaf) == 0 {
		return Step{Name: "edit " + o.resource + " " + o.key, Do: func(context.Context, *World) error { return nil }}
	}
	return step
}

// editable maps built-in resources whose content may change at any time to the
// field with that content. For custom resources it is the spec.
var editable = map[string]string{
	"configmaps": "data", "secrets": "data", "services": "spec", "deployments.apps": "spec",
	"ingresses.networking.k8s.io": "spec",
}

// leaf finds a value of an object that comes from the program and that another
// client can edit. It returns the path of the value, and the value after the
// edit, or nil if there is no such value. It does not choose values in
// [Case].Ignore, because the program need not repair them.
func leaf(c *Case, ignore *state.Ignore, resource string, sent map[string]any) ([]string, any) {
	field, known := editable[resource]
	if !known && c.custom(resource) {
		field, known = "spec", true
	}
	content, _ := sent[field].(map[string]any)
	if !known || ignore.Covers(resource, field) {
		return nil, nil
	}
	return valueIn(ignore, resource, content, field)
}

// valueIn finds the first string or integer in content that is not ignored, in
// the order of the fields' names. path is the path of content.
func valueIn(ignore *state.Ignore, resource string, content map[string]any, path ...string) ([]string, any) {
	for _, field := range slices.Sorted(maps.Keys(content)) {
		full := append(slices.Clone(path), field)
		if ignore.Covers(resource, full...) {
			continue
		}
		switch v := content[field].(type) {
		case string:
			if resource == "secrets" {
				return full, "ZWRpdGVk"
			}
			return full, v + "-edited"
		case int64:
			return full, v + 1
		case map[string]any:
			if found, value := valueIn(ignore, resource, v, full...); found != nil {
				return found, value
			}
		}
	}
	return nil, nil
}

// bodyOf returns the body of a write as an object. It converts a JSON patch to
// an object, and the stringData of a Secret to data.
func bodyOf(e apisim.Event) map[string]any {
	body, err := yaml.ToJSON(e.Body)
	var sent any
	if err != nil || utiljson.Unmarshal(body, &sent) != nil {
		return nil
	}
	object, _ := sent.(map[string]any)
	if operations, ok := sent.([]any); ok {
		object = patchedIn(operations)
	}
	if plain, _, _ := unstructured.NestedStringMap(object, "stringData"); e.Resource.Resource == "secrets" {
		for field, text := range plain {
			_ = unstructured.SetNestedField(object, base64.StdEncoding.EncodeToString([]byte(text)), "data", field)
		}
	}
	return object
}

// patchedIn returns an object with the values that a JSON patch sets. A value
// in a list has a field with its index as the name, such as "0".
func patchedIn(operations []any) map[string]any {
	object := map[string]any{}
	for _, o := range operations {
		operation, _ := o.(map[string]any)
		path, _ := operation["path"].(string)
		if value := operation["value"]; value != nil && (operation["op"] == "add" || operation["op"] == "replace") {
			fields := strings.Split(strings.TrimPrefix(path, "/"), "/")
			for i, f := range fields {
				fields[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(f)
			}
			_ = unstructured.SetNestedField(object, value, fields...) // in addition to the values in a list
		}
	}
	return object
}

// ownOf returns the values that a write has given the object. These do not
// include values that the server has filled in, or that an update has sent back
// unchanged.
func ownOf(body map[string]any, e apisim.Event) map[string]any {
	var old map[string]any
	if e.Old != nil {
		old = e.Old.Object
	}
	return given(body, e.New.Object, old)
}

// given returns the strings and integers that a write has given to an object.
// sent is the body of the write. current and old are the object after and
// before the write. A value counts if it is in sent and in current, but not in
// old.
func given(sent, current, old map[string]any) map[string]any {
	values := map[string]any{}
	for field, value := range sent {
		switch v := value.(type) {
		case string, int64:
			if v == current[field] && v != old[field] {
				values[field] = v
			}
		case map[string]any:
			inNow, _ := current[field].(map[string]any)
			inBefore, _ := old[field].(map[string]any)
			if inner := given(v, inNow, inBefore); len(inner) > 0 {
				values[field] = inner
			}
		}
	}
	return values
}
