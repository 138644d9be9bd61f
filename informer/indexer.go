package informer

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// errReadOnly is the answer to writes through Indexer.
var errReadOnly = errors.New("the cache of an informer can only be read")

// Indexer returns a view of the cache for code that reads through client-go's
// interfaces, generated listers for example:
//
//	lister := corelisters.NewPodLister(pods.Indexer())
//
// It always shows the newest state, knows the index cache.NamespaceIndex, and
// can be given others. Its writes fail. Unlike the informer's own reads, it
// makes a slice for every list.
func (i *Informer[T]) Indexer() cache.Indexer {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.view == nil {
		i.view = &view[T]{informer: i, indexes: map[string]*viewed[T]{}}
	}
	return i.view
}

// A view is what Indexer returns.
type view[T Object] struct {
	informer *Informer[T]

	mu      sync.Mutex // guards indexes
	indexes map[string]*viewed[T]
}

type viewed[T Object] struct {
	of    cache.IndexFunc
	index *Index[T, string]
}

func (v *view[T]) Add(any) error               { return errReadOnly }
func (v *view[T]) Update(any) error            { return errReadOnly }
func (v *view[T]) Delete(any) error            { return errReadOnly }
func (v *view[T]) Replace([]any, string) error { return errReadOnly }
func (v *view[T]) Resync() error               { return nil }
func (v *view[T]) Bookmark(string)             {}

func (v *view[T]) LastStoreSyncResourceVersion() string { return v.informer.LastResourceVersion() }

func (v *view[T]) List() []any {
	s := v.informer.Snapshot()
	return appendAny(make([]any, 0, s.Len()), s.All())
}

func (v *view[T]) ListKeys() []string { return keysOf(v.informer.Snapshot().All()) }

func (v *view[T]) Get(obj any) (found any, exists bool, err error) {
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		return nil, false, fmt.Errorf("reading the cache of %s: %w", v.informer.Name(), err)
	}
	return v.GetByKey(key)
}

func (v *view[T]) GetByKey(key string) (found any, exists bool, err error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return nil, false, fmt.Errorf("reading the cache of %s: %w", v.informer.Name(), err)
	}
	if object, ok := v.informer.Get(types.NamespacedName{Namespace: namespace, Name: name}); ok {
		return object, true, nil
	}
	return nil, false, nil
}

func (v *view[T]) Index(name string, obj any) ([]any, error) {
	of := cache.IndexFunc(cache.MetaNamespaceIndexFunc)
	if name != cache.NamespaceIndex {
		x, err := v.index(name)
		if err != nil {
			return nil, err
		}
		of = x.of
	}
	values, err := of(obj)
	if err != nil {
		return nil, fmt.Errorf("reading index %q of %s: %w", name, v.informer.Name(), err)
	}
	var found []any
	known := map[types.NamespacedName]bool{}
	s := v.informer.Snapshot()
	for _, value := range values {
		seq, err := v.having(s, name, value)
		if err != nil {
			return nil, err
		}
		for object := range seq {
			key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
			if len(values) == 1 || !known[key] {
				known[key] = len(values) > 1
				found = append(found, object)
			}
		}
	}
	return found, nil
}

func (v *view[T]) IndexKeys(name, value string) ([]string, error) {
	seq, err := v.having(v.informer.Snapshot(), name, value)
	if err != nil {
		return nil, err
	}
	return keysOf(seq), nil
}

func (v *view[T]) ByIndex(name, value string) ([]any, error) {
	seq, err := v.having(v.informer.Snapshot(), name, value)
	if err != nil {
		return nil, err
	}
	return appendAny(nil, seq), nil
}

func (v *view[T]) ListIndexFuncValues(name string) []string {
	values := map[string]struct{}{}
	if name == cache.NamespaceIndex {
		for object := range v.informer.Snapshot().All() {
			values[object.GetNamespace()] = struct{}{}
		}
	} else if x, err := v.index(name); err == nil {
		for object := range v.informer.Snapshot().All() {
			if of, err := x.of(object); err == nil {
				for _, value := range of {
					values[value] = struct{}{}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(values))
}

func (v *view[T]) GetIndexers() cache.Indexers {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	for name, x := range v.indexes {
		all[name] = x.of
	}
	return all
}

func (v *view[T]) AddIndexers(added cache.Indexers) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name := range added {
		if v.indexes[name] != nil {
			return fmt.Errorf("adding indexes to the cache of %s: there is one named %q already", v.informer.Name(), name)
		}
	}
	for name, of := range added {
		if name == cache.NamespaceIndex { // the store is in the order of namespaces
			continue
		}
		v.indexes[name] = &viewed[T]{of, NewIndex(v.informer, func(object T) []string {
			values, err := of(object)
			if err != nil {
				return nil // not in this index
			}
			return values
		})}
	}
	return nil
}

func (v *view[T]) index(name string) (*viewed[T], error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if x := v.indexes[name]; x != nil {
		return x, nil
	}
	return nil, fmt.Errorf("reading the cache of %s: there is no index named %q", v.informer.Name(), name)
}

func (v *view[T]) having(s Snapshot[T], name, value string) (iter.Seq[T], error) {
	if name == cache.NamespaceIndex {
		return s.Namespace(value), nil
	}
	x, err := v.index(name)
	if err != nil {
		return nil, err
	}
	return x.index.In(s, value), nil
}

func appendAny[T Object](to []any, seq iter.Seq[T]) []any {
	for object := range seq {
		to = append(to, object)
	}
	return to
}

func keysOf[T Object](seq iter.Seq[T]) []string {
	var keys []string
	for object := range seq {
		keys = append(keys, cache.MetaObjectToName(metav1.Object(object)).String())
	}
	return keys
}
