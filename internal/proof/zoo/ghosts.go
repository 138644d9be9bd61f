package zoo

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

const classGhost = "ghost in a cache"

func ghosts() []Specimen {
	return []Specimen{{
		Name: "takes no notice of a deletion that was missed", Class: classGhost, World: comeAndGo, Found: "cache",
		Bug: indexes(false), Twin: indexes(true), SDKTwin: onSDK(stateless(right)),
		Why: "no event reaches a Reconciler, and an informer.Index follows its cache by itself",
	}}
}

// index is a program's own state, built from events.
type index struct {
	mu   sync.Mutex // guards keys
	keys map[string]*corev1.Secret
}

func (i *index) put(obj any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if s, ok := obj.(*corev1.Secret); ok {
		i.keys[s.Name] = s
	}
}

func (i *index) drop(obj any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if s, ok := obj.(*corev1.Secret); ok {
		delete(i.keys, s.Name)
	}
}

func (i *index) list() []any {
	i.mu.Lock()
	defer i.mu.Unlock()
	var list []any
	for _, s := range i.keys {
		list = append(list, s)
	}
	return list
}

// indexes returns a program that keeps the keys in its own index. An object
// that was deleted while its watch was broken arrives as a tombstone, and not
// as a Secret. If tombstones is false, the handler does not unwrap the
// tombstone. So the index keeps the key forever, and the program makes no new
// key.
func indexes(tombstones bool) Program {
	return func(env *reconciletest.Env) error {
		p := newPlain(env.Client(), stateless(right))
		i := &index{keys: map[string]*corev1.Secret{}}
		p.list = i.list
		env.Cache("secrets", p.list)
		p.handle(p.apps, p.appHandler())
		enqueue := p.secretHandler()
		put := func(obj any) {
			i.put(obj)
			enqueue.OnAdd(obj, false)
		}
		p.handle(p.secretCache, cache.ResourceEventHandlerFuncs{
			AddFunc: put, UpdateFunc: func(_, obj any) { put(obj) },
			DeleteFunc: func(obj any) {
				if tombstones {
					obj = last(obj)
				}
				i.drop(obj)
				enqueue.OnDelete(obj)
			},
		})
		return p.run(env.Context(), p.synced...)
	}
}
