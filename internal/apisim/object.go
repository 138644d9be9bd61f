package apisim

import (
	"fmt"
	"maps"
	"reflect"
	"strconv"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// object is decoded JSON with integers kept as int64.
type object = map[string]any

// stored is one version of an object. It is immutable, but for the cached item: readers share it without a copy.
type stored struct {
	key     types.NamespacedName
	version int64
	obj     object
	raw     []byte
	labels  labels.Set
	item    []byte // its form in lists, made at the first; the server's lock guards it
}

func newStored(obj object, version int64) (*stored, error) {
	m := metaOf(obj)
	m["resourceVersion"] = formatVersion(version)
	raw, err := encode(obj)
	if err != nil {
		return nil, fmt.Errorf("encoding an object: %w", err)
	}
	s := &stored{version: version, obj: obj, raw: raw, labels: labelsOf(m)}
	s.key = types.NamespacedName{Namespace: text(m, "namespace"), Name: text(m, "name")}
	return s, nil
}

// unsaved is the object that a dry run would create: it has no version.
func unsaved(obj object) (*stored, error) {
	s, err := newStored(obj, 0)
	if err != nil {
		return nil, err
	}
	delete(s.meta(), "resourceVersion")
	s.raw, err = encode(s.obj)
	return s, err
}

// listItem is the object as a list of a built-in kind shows it: without kind and version.
func (s *stored) listItem() ([]byte, error) {
	if s.item != nil {
		return s.item, nil
	}
	obj := maps.Clone(s.obj)
	delete(obj, "kind")
	delete(obj, "apiVersion")
	var err error
	s.item, err = encode(obj)
	return s.item, err
}

// at is the same object under another resourceVersion, as a watch shows it when it is deleted.
func (s *stored) at(version int64) (*stored, error) {
	obj := maps.Clone(s.obj)
	obj["metadata"] = maps.Clone(s.meta())
	return newStored(obj, version)
}

func (s *stored) meta() object { return metaOf(s.obj) }

func formatVersion(v int64) string { return strconv.FormatInt(v, 10) }

func decode(body []byte) (object, error) {
	var obj object
	if err := utiljson.Unmarshal(body, &obj); err != nil {
		return nil, err
	}
	return obj, nil
}

func clone(obj object) object { return runtime.DeepCopyJSON(obj) }

// metaOf returns the object's metadata, which it adds where there is none.
func metaOf(obj object) object {
	m, ok := obj["metadata"].(object)
	if !ok {
		m = object{}
		obj["metadata"] = m
	}
	return m
}

func text(m object, field string) string {
	s, _ := m[field].(string)
	return s
}

func number(m object, field string) int64 {
	switch n := m[field].(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return 0
}

func labelsOf(meta object) labels.Set {
	m, ok := meta["labels"].(object)
	if !ok {
		return nil
	}
	set := make(labels.Set, len(m))
	for k, v := range m {
		if s, ok := v.(string); ok {
			set[k] = s
		}
	}
	return set
}

func finalizersOf(obj object) []string {
	list, _ := metaOf(obj)["finalizers"].([]any)
	var all []string
	for _, v := range list {
		if s, ok := v.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// carry sets a field of the metadata to the old object's value.
func carry(to, from object, fields ...string) {
	for _, f := range fields {
		if v, ok := from[f]; ok {
			to[f] = v
		} else {
			delete(to, f)
		}
	}
}

func sameJSON(a, b object) bool { return reflect.DeepEqual(a, b) }
