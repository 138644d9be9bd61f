package state

import (
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Cache is a cache that the program has registered.
type Cache struct {
	Resource string
	List     func() []any
}

// Check compares each object in the cache with the objects of the server. It
// does not notice an object that the cache lacks.
//
// Check returns an error that describes the first difference, or nil if there
// is no difference. edited reports whether the difference is an object that the
// program has modified in place.
func (c *Cache) Check(objects []*unstructured.Unstructured) (edited bool, err error) {
	byKey := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		byKey[o.GetNamespace()+"/"+o.GetName()] = o
	}
	for _, obj := range c.List() {
		if edited, err := check(obj, byKey); err != nil {
			return edited, fmt.Errorf("a cache of %s does not match the server: %w", c.Resource, err)
		}
	}
	return false, nil
}

func check(obj any, byKey map[string]*unstructured.Unstructured) (edited bool, err error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return false, fmt.Errorf("reading the metadata of a cached %T: %w", obj, err)
	}
	key := m.GetNamespace() + "/" + m.GetName()
	live := byKey[key]
	switch {
	case live == nil:
		return false, fmt.Errorf("stale cache entry %s: the server does not have the object", key)
	case live.GetUID() != m.GetUID():
		return false, fmt.Errorf("stale cache entry %s: the object was deleted and recreated", key)
	case live.GetResourceVersion() != m.GetResourceVersion():
		return false, fmt.Errorf("%s has resourceVersion %s in the cache, but %s on the server", key, m.GetResourceVersion(),
			live.GetResourceVersion())
	}
	isEqual, err := equal(obj, live)
	if err == nil && !isEqual {
		err = fmt.Errorf("%s was modified in place", key)
	}
	return true, err
}

// equal reports whether the cached object obj equals have, the object on the
// server. It decodes have into the Go type of obj.
func equal(obj any, have *unstructured.Unstructured) (bool, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return equality.Semantic.DeepEqual(u.Object, have.Object), nil
	}
	body, err := json.Marshal(have.Object)
	if err != nil {
		return false, err
	}
	fresh := reflect.New(reflect.TypeOf(obj).Elem())
	if err := json.Unmarshal(body, fresh.Interface()); err != nil {
		return false, err
	}
	cached := reflect.New(reflect.TypeOf(obj).Elem())
	cached.Elem().Set(reflect.ValueOf(obj).Elem())
	for _, v := range []reflect.Value{fresh, cached} { // only some decoders set kind and apiVersion
		if f := v.Elem().FieldByName("TypeMeta"); f.IsValid() && f.CanSet() {
			f.SetZero()
		}
	}
	return equality.Semantic.DeepEqual(cached.Interface(), fresh.Interface()), nil
}
