package clientgo

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/informer"
)

// errReadOnly is the error of writes through Indexer.
var errReadOnly = errors.New("the cache of an informer is read-only")

// Indexer returns a view of i's cache for code that reads through client-go's
// interfaces, such as generated listers:
//
//	lister := corelisters.NewPodLister(clientgo.Indexer(pods))
//
// The view always shows the newest state of the cache. It has the index
// cache.NamespaceIndex. Make the view only once if you call its AddIndexers:
// each view adds its own indexes to the informer, and an index cannot be
// removed (see [informer.NewIndex]). Writes through the view return an error.
// Lists allocate a slice, unlike the informer's own reads. The objects are
// shared; do not modify them.
//
// It is safe for concurrent use.
func Indexer[T informer.Object](i *informer.Informer[T]) cache.Indexer {
	return &view[T]{informer: i, indexes: map[string]index[T]{
		cache.NamespaceIndex: {cache.MetaNamespaceIndexFunc, inNamespace[T]},
	}}
}

// view implements [cache.Indexer] with the cache of an informer. It is
// read-only.
type view[T informer.Object] struct {
	informer *informer.Informer[T]

	mu      sync.Mutex // guards indexes
	indexes map[string]index[T]
}

type index[T informer.Object] struct {
	function cache.IndexFunc
	objects  func(s informer.Snapshot[T], value string) iter.Seq[T]
}

// The methods that write return an error. Resync and Bookmark have no effect.

func (v *view[T]) Add(any) error               { return errReadOnly }
func (v *view[T]) Update(any) error            { return errReadOnly }
func (v *view[T]) Delete(any) error            { return errReadOnly }
func (v *view[T]) Replace([]any, string) error { return errReadOnly }
func (v *view[T]) Resync() error               { return nil }
func (v *view[T]) Bookmark(string)             {}

// LastStoreSyncResourceVersion returns the informer's LastResourceVersion.
func (v *view[T]) LastStoreSyncResourceVersion() string { return v.informer.LastResourceVersion() }

// List returns all objects, sorted by namespace and name.
func (v *view[T]) List() []any {
	s := v.informer.Snapshot()
	return appendAny(make([]any, 0, s.Len()), s.All())
}

// ListKeys returns the keys of all objects, such as "namespace/name".
func (v *view[T]) ListKeys() []string { return keysOf(v.informer.Snapshot().All()) }

// Get returns the cached object with the key of obj.
func (v *view[T]) Get(obj any) (found any, exists bool, err error) {
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		return nil, false, v.failed(err)
	}
	return v.GetByKey(key)
}

// GetByKey returns the cached object of a key such as "namespace/name".
func (v *view[T]) GetByKey(key string) (found any, exists bool, err error) {
	if _, _, err := cache.SplitMetaNamespaceKey(key); err != nil {
		return nil, false, v.failed(err)
	}
	if object, ok := v.informer.Get(nameIn(key)); ok {
		return object, true, nil
	}
	return nil, false, nil
}

// Index returns the objects that share at least one value with obj in an index,
// without duplicates.
func (v *view[T]) Index(name string, obj any) ([]any, error) {
	x, err := v.index(name)
	if err != nil {
		return nil, err
	}
	values, err := x.function(obj)
	if err != nil {
		return nil, v.failed(fmt.Errorf("computing the values of index %q: %w", name, err))
	}
	var found []any
	known := map[cache.ObjectName]bool{}
	s := v.informer.Snapshot()
	for _, value := range values {
		for object := range x.objects(s, value) {
			if key := cache.MetaObjectToName(object); len(values) == 1 || !known[key] {
				known[key] = len(values) > 1
				found = append(found, object)
			}
		}
	}
	return found, nil
}

// IndexKeys returns the keys of the objects that have value in the index with
// this name.
func (v *view[T]) IndexKeys(name, value string) ([]string, error) {
	x, err := v.index(name)
	if err != nil {
		return nil, err
	}
	return keysOf(x.objects(v.informer.Snapshot(), value)), nil
}

// ByIndex returns the objects that have value in the index with this name.
func (v *view[T]) ByIndex(name, value string) ([]any, error) {
	x, err := v.index(name)
	if err != nil {
		return nil, err
	}
	return appendAny(nil, x.objects(v.informer.Snapshot(), value)), nil
}

// ListIndexFuncValues returns the values in the index with this name, sorted.
func (v *view[T]) ListIndexFuncValues(name string) []string {
	values := map[string]struct{}{}
	if x, err := v.index(name); err == nil {
		for object := range v.informer.Snapshot().All() {
			// The index does not contain objects for which the function fails.
			computed, _ := x.function(object)
			for _, value := range computed {
				values[value] = struct{}{}
			}
		}
	}
	return slices.Sorted(maps.Keys(values))
}

// GetIndexers returns the functions of all indexes.
func (v *view[T]) GetIndexers() cache.Indexers {
	v.mu.Lock()
	defer v.mu.Unlock()
	indexers := cache.Indexers{}
	for name, x := range v.indexes {
		indexers[name] = x.function
	}
	return indexers
}

// AddIndexers adds an index to the informer for each function in added, under
// its name. An object for which a function returns an error is left out of that
// function's index. AddIndexers skips [cache.NamespaceIndex]. If any other name
// already has an index, it returns an error and adds none.
func (v *view[T]) AddIndexers(added cache.Indexers) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name := range added {
		if v.indexes[name].function != nil && name != cache.NamespaceIndex {
			return fmt.Errorf("adding indexes to the cache of %s: there already is an index named %q", v.informer.Name(), name)
		}
	}
	for name, function := range added {
		if name != cache.NamespaceIndex {
			v.add(name, function)
		}
	}
	return nil
}

// add adds an index with this name to the informer. The caller holds mu.
func (v *view[T]) add(name string, indexFunc cache.IndexFunc) {
	v.indexes[name] = index[T]{indexFunc, informer.NewIndex(v.informer, func(object T) []string {
		values, err := indexFunc(object)
		if err != nil {
			return nil // not in this index
		}
		return values
	}).In}
}

func (v *view[T]) index(name string) (index[T], error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if x := v.indexes[name]; x.function != nil {
		return x, nil
	}
	return index[T]{}, fmt.Errorf("Index with name %s does not exist", name)
}

func (v *view[T]) failed(err error) error {
	return fmt.Errorf("reading the cache of %s: %w", v.informer.Name(), err)
}

func appendAny[T informer.Object](list []any, seq iter.Seq[T]) []any {
	for object := range seq {
		list = append(list, object)
	}
	return list
}

func keysOf[T informer.Object](seq iter.Seq[T]) []string {
	var keys []string
	for object := range seq {
		keys = append(keys, cache.MetaObjectToName(object).String())
	}
	return keys
}
