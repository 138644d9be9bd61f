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

// output is an object that the program made. Those that exist at the end of the
// workload are deleted and edited in runs of their own, unless
// Options.SkipDrift is set.
type output struct {
	resource, key string
	leaf          []string // the path of a value that may be edited, or nil
	value         any      // its value after an edit
	stepped       bool     // whether a step has written to it, too
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

// foreign holds fields of the spec, and values that a controller which makes
// such objects hardly ever sets. The usual value is the server's default.
var foreign = map[string]struct{ field, value, usual string }{
	"deployments.apps": {"revisionHistoryLimit", "7", "10"}, "services": {"sessionAffinity", `"ClientIP"`, "None"},
}

// editable holds the built-in resources whose content may change at any time,
// as that of custom resources may.
var editable = map[string]string{
	"configmaps": "data", "secrets": "data", "services": "spec", "deployments.apps": "spec",
	"ingresses.networking.k8s.io": "spec",
}

// leaf finds a value that the program gave an object and that another client
// could edit. It returns its path and the edited value. Values in [Case].Ignore
// need not be repaired.
func leaf(c *Case, ignore *state.Ignore, resource string, own map[string]any) ([]string, any) {
	at, known := editable[resource]
	if !known && c.custom(resource) {
		at, known = "spec", true
	}
	content, _ := own[at].(map[string]any)
	if !known || ignore.Covers(resource, at) {
		return nil, nil
	}
	return valueIn(ignore, resource, content, at)
}

// valueIn finds the first string or number in content, which stands at path,
// that is not ignored.
func valueIn(ignore *state.Ignore, resource string, content map[string]any, path ...string) ([]string, any) {
	for _, field := range slices.Sorted(maps.Keys(content)) {
		at := append(slices.Clone(path), field)
		if ignore.Covers(resource, at...) {
			continue
		}
		switch v := content[field].(type) {
		case string:
			if resource == "secrets" {
				return at, "ZWRpdGVk"
			}
			return at, v + "-edited"
		case int64:
			return at, v + 1
		case map[string]any:
			if found, value := valueIn(ignore, resource, v, at...); found != nil {
				return found, value
			}
		}
	}
	return nil, nil
}

// bodyOf returns the body of a write as an object: also of a JSON patch, and of
// the plain text of a Secret.
func bodyOf(e apisim.Event) map[string]any {
	body, err := yaml.ToJSON(e.Body)
	var sent any
	if err != nil || utiljson.Unmarshal(body, &sent) != nil {
		return nil
	}
	object, _ := sent.(map[string]any)
	if operations, is := sent.([]any); is {
		object = patchedIn(operations)
	}
	if plain, _, _ := unstructured.NestedStringMap(object, "stringData"); e.Resource.Resource == "secrets" {
		for field, text := range plain {
			_ = unstructured.SetNestedField(object, base64.StdEncoding.EncodeToString([]byte(text)), "data", field)
		}
	}
	return object
}

// patchedIn is an object of the values that a JSON patch sets outside lists.
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

// ownOf returns the part of a write's body that gave the object its values.
// Values that the server filled in, and those that an update sends back as they
// were, are not among them.
func ownOf(body map[string]any, e apisim.Event) map[string]any {
	var before map[string]any
	if e.Old != nil {
		before = e.Old.Object
	}
	return given(body, e.New.Object, before)
}

// given keeps the strings and numbers of sent that are in now, and were not in
// before.
func given(sent, now, before map[string]any) map[string]any {
	kept := map[string]any{}
	for field, value := range sent {
		switch v := value.(type) {
		case string, int64:
			if v == now[field] && v != before[field] {
				kept[field] = v
			}
		case map[string]any:
			inNow, _ := now[field].(map[string]any)
			inBefore, _ := before[field].(map[string]any)
			if inner := given(v, inNow, inBefore); len(inner) > 0 {
				kept[field] = inner
			}
		}
	}
	return kept
}
