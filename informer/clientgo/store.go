package clientgo

import (
	"fmt"
	"iter"
	"reflect"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/informer/internal/dropin"
)

// indexer is the store of a shared informer, and answers as client-go's store
// does. Unlike the view that Indexer returns, it can be written to, because
// tests of programs write to it.
type indexer struct {
	view[object]

	store dropin.Store[object]
	// version is the resourceVersion that the store has reached.
	version *atomic.Pointer[string]
}

var _ cache.Indexer = (*indexer)(nil)

func newIndexer(
	source *informer.Informer[object], store dropin.Store[object], version *atomic.Pointer[string],
) *indexer {
	return &indexer{view[object]{informer: source, indexes: map[string]index[object]{}}, store, version}
}

// Add stores an object. It does not call handlers.
func (x *indexer) Add(obj any) error { return x.Update(obj) }

// Update stores an object. It does not call handlers.
func (x *indexer) Update(obj any) error {
	stored, ok := obj.(object)
	if !ok {
		return wrongObject(obj)
	}
	x.store.Put(stored)
	x.Bookmark(stored.GetResourceVersion())
	return nil
}

// Delete removes the object with the key of obj. It does not call handlers.
func (x *indexer) Delete(obj any) error {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return cache.KeyError{Obj: obj, Err: err}
	}
	x.store.Remove(nameIn(key))
	if last, ok := obj.(object); ok {
		x.Bookmark(last.GetResourceVersion())
	}
	return nil
}

// Replace replaces the content of the store with the objects in list. It does
// not call handlers.
func (x *indexer) Replace(list []any, rv string) error {
	objects := make([]object, len(list))
	for n, obj := range list {
		stored, ok := obj.(object)
		if !ok {
			return wrongObject(obj)
		}
		objects[n] = stored
	}
	x.store.Replace(objects)
	x.Bookmark(rv)
	return nil
}

// wrongObject returns the error that client-go returns for an object without a
// key. It is also returned for an object that has a key but is not an API
// object.
func wrongObject(obj any) error {
	if _, err := cache.MetaNamespaceKeyFunc(obj); err != nil {
		return cache.KeyError{Obj: obj, Err: err}
	}
	return cache.KeyError{Obj: obj, Err: fmt.Errorf("a %T is not an API object", obj)}
}

// Bookmark records the resourceVersion that the store has reached.
func (x *indexer) Bookmark(rv string) { x.version.Store(&rv) }

// LastStoreSyncResourceVersion implements [cache.Store].
func (x *indexer) LastStoreSyncResourceVersion() string { return ptr.Deref(x.version.Load(), "") }

// Get returns the object with the key of obj.
func (x *indexer) Get(obj any) (found any, exists bool, err error) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return nil, false, cache.KeyError{Obj: obj, Err: err}
	}
	return x.GetByKey(key)
}

// GetByKey returns the object of a key such as "namespace/name".
func (x *indexer) GetByKey(key string) (found any, exists bool, err error) {
	if found, exists := x.informer.Get(nameIn(key)); exists {
		return found, true, nil
	}
	return nil, false, nil
}

// nameIn returns the name in a key. For a malformed key it returns a name that
// no object has.
func nameIn(key string) types.NamespacedName {
	namespace, name, _ := strings.Cut(key, "/")
	if namespace == "" || name == "" { // keys of objects without a namespace have no slash
		namespace, name = "", key
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// AddIndexers adds an index for each of these functions, under its name. It
// returns an error if an index with one of the names exists.
func (x *indexer) AddIndexers(added cache.Indexers) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if conflicts := sets.KeySet(x.indexes).Intersection(sets.KeySet(added)); len(conflicts) > 0 {
		return fmt.Errorf("indexer conflict: %v", conflicts)
	}
	for name, function := range added {
		if isByNamespace(function) {
			x.indexes[name] = index[object]{function, inNamespace[object]}
		} else {
			x.add(name, function)
		}
	}
	return nil
}

// isByNamespace reports whether function is client-go's own function for the
// index by namespace. The cache is sorted by namespace, so it needs no such
// index.
func isByNamespace(function cache.IndexFunc) bool {
	return reflect.ValueOf(function).Pointer() == reflect.ValueOf(cache.MetaNamespaceIndexFunc).Pointer()
}

func inNamespace[T informer.Object](s informer.Snapshot[T], value string) iter.Seq[T] {
	return s.Namespace(value)
}
