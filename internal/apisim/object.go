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

	"github.com/homeostat/homeostat/internal/apisim/rules"
)

// object is decoded JSON with integers kept as int64.
type object = map[string]any

// stored is one version of an object. Readers share it without a copy, because
// it is immutable, except for the cached item.
type stored struct {
	key     types.NamespacedName
	version int64
	obj     object
	raw     []byte
	labels  labels.Set
	item    []byte // the form in lists, made on first use; guarded by the server's lock
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

// unsaved returns the object that a dry run would create. It has no
// resourceVersion.
func unsaved(obj object) (*stored, error) {
	s, err := newStored(obj, 0)
	if err != nil {
		return nil, err
	}
	delete(s.meta(), "resourceVersion")
	s.raw, err = encode(s.obj)
	return s, err
}

// listItem returns the object as a list of a built-in kind shows it: without
// kind and apiVersion.
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

// withVersion returns a copy of s with this resourceVersion. For example, a
// watch shows a deleted object with the version of its deletion.
func (s *stored) withVersion(version int64) (*stored, error) {
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
	var finalizers []string
	for _, v := range list {
		if s, ok := v.(string); ok {
			finalizers = append(finalizers, s)
		}
	}
	return finalizers
}

// carry sets fields of dst to their values in src. It deletes fields that src
// does not have.
func carry(dst, src object, fields ...string) {
	for _, f := range fields {
		if v, ok := src[f]; ok {
			dst[f] = v
		} else {
			delete(dst, f)
		}
	}
}

func sameJSON(a, b object) bool { return reflect.DeepEqual(a, b) }

// These are short names for the accessors of package rules.

func metaOf(obj object) object            { return rules.Meta(obj) }
func text(m object, field string) string  { return rules.Text(m, field) }
func number(m object, field string) int64 { return rules.Number(m, field) }
func asObject(v any) object               { return rules.Object(v) }
func find(obj object, path string) any    { return rules.Find(obj, path) }
func empty(v any) bool                    { return rules.Empty(v) }
