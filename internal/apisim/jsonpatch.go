package apisim

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// operation is one step of an RFC 6902 patch.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	From  string          `json:"from"`
	Value json.RawMessage `json:"value"`
}

func applyOperations(obj object, ops []operation) (object, error) {
	var doc any = obj
	for _, op := range ops {
		next, err := op.apply(doc)
		if err != nil {
			return nil, fmt.Errorf("%s operation on %q: %w", op.Op, op.Path, err)
		}
		doc = next
	}
	obj, ok := doc.(object)
	if !ok {
		return nil, fmt.Errorf("the patch leaves no object")
	}
	return obj, nil
}

func (op operation) apply(doc any) (any, error) {
	switch op.Op {
	case "remove":
		doc, _, err := take(doc, pointer(op.Path))
		return doc, err
	case "move":
		doc, v, err := take(doc, pointer(op.From))
		if err != nil {
			return nil, err
		}
		return put(doc, pointer(op.Path), v, false)
	case "copy":
		v, err := look(doc, pointer(op.From))
		if err != nil {
			return nil, err
		}
		return put(doc, pointer(op.Path), runtime.DeepCopyJSONValue(v), false)
	}
	var value any
	if len(op.Value) > 0 {
		if err := utiljson.Unmarshal(op.Value, &value); err != nil {
			return nil, err
		}
	}
	switch op.Op {
	case "add", "replace":
		return put(doc, pointer(op.Path), value, op.Op == "replace")
	case "test":
		have, err := look(doc, pointer(op.Path))
		if err != nil && value != nil {
			return nil, err
		}
		if !reflect.DeepEqual(have, value) {
			return nil, fmt.Errorf("testing value failed: test failed")
		}
		return doc, nil
	}
	return nil, fmt.Errorf("unexpected kind of operation")
}

// pointer splits an RFC 6901 path.
func pointer(path string) []string {
	if path == "" {
		return nil
	}
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for i, p := range parts {
		parts[i] = unescape.Replace(p)
	}
	return parts
}

var errMissing = fmt.Errorf("path is missing")

func look(doc any, path []string) (any, error) {
	for _, p := range path {
		switch d := doc.(type) {
		case object:
			v, ok := d[p]
			if !ok {
				return nil, errMissing
			}
			doc = v
		case []any:
			i, err := strconv.Atoi(p)
			if err != nil || i < 0 || i >= len(d) {
				return nil, errMissing
			}
			doc = d[i]
		default:
			return nil, errMissing
		}
	}
	return doc, nil
}

// put sets the value at the path and returns the document, whose arrays may have moved.
func put(doc any, path []string, value any, mustExist bool) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	if len(path) > 1 {
		child, err := look(doc, path[:1])
		if err != nil {
			return nil, err
		}
		if value, err = put(child, path[1:], value, mustExist); err != nil {
			return nil, err
		}
		mustExist = true // the step on the way is there: replace it
	}
	switch d := doc.(type) {
	case object:
		if _, there := d[path[0]]; !there && mustExist {
			return nil, errMissing
		}
		d[path[0]] = value
		return d, nil
	case []any:
		return putAt(d, path[0], value, mustExist)
	}
	return nil, errMissing
}

func putAt(list []any, at string, value any, replace bool) (any, error) {
	if at == "-" && !replace {
		return append(list, value), nil
	}
	i, err := strconv.Atoi(at)
	if err != nil || i < 0 || i > len(list) || replace && i == len(list) {
		return nil, errMissing
	}
	if replace {
		list[i] = value
		return list, nil
	}
	return slices.Insert(list, i, value), nil
}

// take removes what the path names and returns the document and the removed value.
func take(doc any, path []string) (any, any, error) {
	v, err := look(doc, path)
	if err != nil || len(path) == 0 {
		return nil, nil, errMissing
	}
	parent, last := path[:len(path)-1], path[len(path)-1]
	holder, err := look(doc, parent)
	if err != nil {
		return nil, nil, err
	}
	switch h := holder.(type) {
	case object:
		delete(h, last)
		return doc, v, nil
	case []any:
		i, _ := strconv.Atoi(last)
		doc, err = put(doc, parent, slices.Delete(h, i, i+1), len(parent) > 0)
		return doc, v, err
	}
	return nil, nil, errMissing
}
