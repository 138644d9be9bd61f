package state

import (
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Cache is one that the program has named.
type Cache struct {
	Resource string
	List     func() []any
}

// Check compares the cache with the objects of the server.
//
// Errors: the first difference; edited reports whether it is an object that the
// program has modified.
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
		return false, fmt.Errorf("%T: %w", obj, err)
	}
	key := m.GetNamespace() + "/" + m.GetName()
	have := byKey[key]
	switch {
	case have == nil:
		return false, fmt.Errorf("%s is a ghost: the server does not have it", key)
	case have.GetUID() != m.GetUID():
		return false, fmt.Errorf("%s is a ghost: the server has a recreated object", key)
	case have.GetResourceVersion() != m.GetResourceVersion():
		return false, fmt.Errorf("%s has resourceVersion %s, and the server has %s", key, m.GetResourceVersion(),
			have.GetResourceVersion())
	}
	same, err := equal(obj, have)
	if err == nil && !same {
		err = fmt.Errorf("%s was modified in place", key)
	}
	return true, err
}

// equal decodes the server's object into a value of the cached one's type and
// compares.
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
	for _, v := range []reflect.Value{fresh, cached} { // decoders set kind and apiVersion, or do not
		if f := v.Elem().FieldByName("TypeMeta"); f.IsValid() && f.CanSet() {
			f.SetZero()
		}
	}
	return equality.Semantic.DeepEqual(cached.Interface(), fresh.Interface()), nil
}
