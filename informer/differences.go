package informer

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
)

// mostFields bounds how many fields a MutationError names.
const mostFields = 10

// differences returns the paths of the fields in which two objects of one type
// differ, such as "spec.containers[0].image".
func differences(a, b any) []string {
	var paths []string
	compare(reflect.ValueOf(a), reflect.ValueOf(b), "", &paths)
	slices.Sort(paths)
	return paths
}

func compare(a, b reflect.Value, path string, paths *[]string) {
	if len(*paths) >= mostFields || !a.CanInterface() || equality.Semantic.DeepEqual(a.Interface(), b.Interface()) {
		return
	}
	found := len(*paths)
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !a.IsNil() && !b.IsNil() && a.Elem().Type() == b.Elem().Type() {
			compare(a.Elem(), b.Elem(), path, paths)
		}
	case reflect.Struct:
		for n := range a.NumField() {
			compare(a.Field(n), b.Field(n), join(path, fieldName(a.Type().Field(n))), paths)
		}
	case reflect.Slice:
		for n := range min(a.Len(), b.Len()) {
			compare(a.Index(n), b.Index(n), fmt.Sprintf("%s[%d]", path, n), paths)
		}
		for n := min(a.Len(), b.Len()); n < max(a.Len(), b.Len()) && len(*paths) < mostFields; n++ {
			*paths = append(*paths, fmt.Sprintf("%s[%d]", path, n))
		}
	case reflect.Map:
		compareMaps(a, b, path, paths)
	}
	if len(*paths) == found { // it differs, but nothing within it
		*paths = append(*paths, path)
	}
}

func compareMaps(a, b reflect.Value, path string, paths *[]string) {
	keys := map[string]reflect.Value{}
	for _, m := range []reflect.Value{a, b} {
		for _, key := range m.MapKeys() {
			keys[fmt.Sprint(key)] = key
		}
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		at := join(path, name)
		x, y := a.MapIndex(keys[name]), b.MapIndex(keys[name])
		if x.IsValid() && y.IsValid() {
			compare(x, y, at, paths)
		} else if len(*paths) < mostFields {
			*paths = append(*paths, at)
		}
	}
}

// fieldName is the field's name in JSON; inlined structs have none.
func fieldName(f reflect.StructField) string {
	name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "" && !strings.Contains(rest, "inline") && !f.Anonymous {
		return f.Name
	}
	return name
}

// join adds a name to a path. The content of an unstructured object stands in a
// field that is not a part of the path.
func join(path, name string) string {
	switch {
	case name == "":
		return path
	case path == "", path == "Object":
		return name
	default:
		return path + "." + name
	}
}
