package reconciletest

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat/homeostat/informer"
)

// cache is one that the program has named.
type cache struct {
	resource string
	list     func() []any
}

// lookIntoCaches holds the caches of the replicas that run against the server.
func (r *run) lookIntoCaches() {
	for _, p := range r.replicas {
		if p.halted || !p.down.IsZero() {
			continue
		}
		for _, c := range p.caches {
			if err := r.lookInto(c); err != nil {
				return
			}
		}
	}
}

func (r *run) lookInto(c cache) error {
	objects, err := r.world.Objects(c.resource)
	if err != nil {
		r.find(oracleCache, fmt.Sprintf("Env.Cache: %v", err))
		return err
	}
	there := named(objects)
	for _, obj := range c.list() {
		oracle, err := differs(obj, there)
		if err != nil {
			r.find(oracle, fmt.Sprintf("a cache of %s is not what the server has: %v", c.resource, err))
			return err
		}
	}
	return nil
}

// differs tells how a cached object is not the server's.
func differs(obj any, there map[string]*unstructured.Unstructured) (string, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return oracleCache, fmt.Errorf("%T: %w", obj, err)
	}
	key := m.GetNamespace() + "/" + m.GetName()
	have := there[key]
	switch {
	case have == nil:
		return oracleCache, fmt.Errorf("%s is a ghost: the server does not have it", key)
	case have.GetUID() != m.GetUID():
		return oracleCache, fmt.Errorf("%s is a ghost: the server has another one of that name", key)
	case have.GetResourceVersion() != m.GetResourceVersion():
		return oracleCache, fmt.Errorf("%s is of version %s, and the server has %s", key, m.GetResourceVersion(),
			have.GetResourceVersion())
	}
	if edited, err := editedInPlace(obj, have); err != nil || edited {
		return oracleMutation, errors.Join(err, fmt.Errorf("%s was edited in place", key))
	}
	return "", nil
}

// editedInPlace decodes the server's object into a value of the same type and compares.
func editedInPlace(obj any, have *unstructured.Unstructured) (bool, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return !equality.Semantic.DeepEqual(u.Object, have.Object), nil
	}
	body, err := json.Marshal(have.Object)
	if err != nil {
		return false, err
	}
	fresh := reflect.New(reflect.TypeOf(obj).Elem())
	if err := json.Unmarshal(body, fresh.Interface()); err != nil {
		return false, err
	}
	clearType(fresh.Elem())
	cached := reflect.New(reflect.TypeOf(obj).Elem())
	cached.Elem().Set(reflect.ValueOf(obj).Elem())
	clearType(cached.Elem())
	return !equality.Semantic.DeepEqual(cached.Interface(), fresh.Interface()), nil
}

// clearType empties kind and version, which decoders fill in or not.
func clearType(v reflect.Value) {
	if f := v.FieldByName("TypeMeta"); f.IsValid() && f.CanSet() {
		f.SetZero()
	}
}

// mutated looks whether an informer has found that somebody edited its objects.
func (r *run) mutated(err error) bool {
	mutation, found := errors.AsType[*informer.MutationError](err)
	if found {
		r.find(oracleMutation, mutation.Error())
	}
	return found
}

// named are objects by namespace, a slash, and name.
func named(objects []*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	all := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		all[o.GetNamespace()+"/"+o.GetName()] = o
	}
	return all
}
